// Agents over real sockets: what the simulation can't show.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/rpc/agent/real_agent.h"
#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<BoundFunction> Echo() {
  return {TextFunction("echo", [](CallInfo&, std::string text) { return text; }),
          TextFunction(
              "echo.inline", [](CallInfo&, std::string text) { return text; }, kInline),
          TextFunction("who", [](CallInfo& info, std::string) { return info.caller(); })};
}

TEST(NodeOverGrpc, CallsBothWaysInlineAndOnTheExecutor) {
  RealAgent a("a", Echo()), b("b", Echo());
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  EXPECT_THAT(a.Call("b", "echo", "hello"), IsOkAndHolds("hello"));
  EXPECT_THAT(a.Call("b", "echo.inline", "inline"), IsOkAndHolds("inline"));
  EXPECT_THAT(b.Call("a", "who", ""), IsOkAndHolds("b"));
  EXPECT_THAT(a.Call("b", "nothing", ""), StatusIs(absl::StatusCode::kNotFound));
}

TEST(NodeOverGrpc, LargeBytesBothWays) {
  RealAgent a("a", {}), b("b", Echo());
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  for (const size_t size : {65'536u, 65'537u, 1u << 20, 33u << 20}) {
    std::string text(size, 'x');
    text[size / 2] = 'y';
    const absl::StatusOr<std::string> back = a.Call("b", "echo", text);
    ASSERT_THAT(back, IsOk()) << size;
    EXPECT_TRUE(*back == text) << size;
  }
}

TEST(NodeOverGrpc, ManyThreadsManyCalls) {
  RealAgent a("a", Echo()), b("b", Echo());
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  std::atomic<int> well{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Future<std::string>> calls;
      for (int i = 0; i < 2000; ++i) {
        Payload payload;
        payload.head = Buffer::FromString(std::to_string(t * 10'000 + i));
        calls.push_back(a.Async("b", i % 2 == 0 ? "echo" : "echo.inline", std::move(payload)));
      }
      for (int i = 0; i < 2000; ++i) {
        const absl::StatusOr<std::string> back = calls[i].Wait(absl::Seconds(60));
        if (back.ok() && *back == std::to_string(t * 10'000 + i)) ++well;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, 8000);
}

TEST(NodeOverGrpc, NestedCallsDoNotDeadlock) {
  // Each level blocks a thread of its agent's executor (2 slots) in a call to the other one.
  RealAgent* agents[2] = {nullptr, nullptr};
  const auto nest = [&agents](int self) {
    return TextFunction(
        "nest", [&agents, self](CallInfo&, std::string depth) -> absl::StatusOr<std::string> {
          const int n = std::stoi(depth);
          if (n == 0) return std::string("bottom");
          return agents[self]->Call(self == 0 ? "b" : "a", "nest", std::to_string(n - 1));
        });
  };
  RealAgent a("a", {nest(0)}), b("b", {nest(1)});
  agents[0] = &a;
  agents[1] = &b;
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  EXPECT_THAT(a.Call("b", "nest", "40"), IsOkAndHolds("bottom"));
}

TEST(NodeOverGrpc, AnInlineFunctionMayNotBlock) {
  RealAgent* self = nullptr;
  RealAgent b(
      "b",
      {TextFunction(
          "blocks",
          [&self](CallInfo& info, std::string) { return self->Call(info.caller(), "echo", "x"); },
          kInline)});
  self = &b;
  RealAgent a("a", Echo());
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  EXPECT_THAT(a.Call("b", "blocks", ""),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("polling thread")));
}

TEST(NodeOverGrpc, UnreachablePeersAreNamedWithAddressAndCause) {
  AgentLimits limits;
  limits.connect_timeout = absl::Milliseconds(300);
  RealAgent a("a", Echo(), limits);
  ASSERT_THAT(a.node().AddPeer("b", "127.0.0.1:1"), IsOk());
  EXPECT_THAT(a.Call("b", "echo", ""),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("b at 127.0.0.1:1"), HasSubstr("refused"),
                             HasSubstr("is it running"))));
  EXPECT_THAT(a.Call("c", "echo", ""), StatusIs(absl::StatusCode::kNotFound, HasSubstr("address")));
  ASSERT_THAT(a.node().AddPeer("d", "no-port"), IsOk());
  EXPECT_THAT(a.Call("d", "echo", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")));
}

TEST(NodeOverGrpc, ACallThatWaitsForAConnectionSaysWhatFailed) {
  AgentLimits limits;
  limits.connect_timeout = absl::Minutes(1);
  RealAgent a("a", Echo(), limits);
  ASSERT_THAT(a.node().AddPeer("b", "127.0.0.1:1"), IsOk());
  EXPECT_THAT(
      a.Call("b", "echo", "", {.timeout = absl::Milliseconds(400)}),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("call echo to b (waiting for the connection, after "),
                     HasSubstr("the last attempt to connect: 127.0.0.1:1"), HasSubstr("refused"))));
}

TEST(NodeOverGrpc, APortInUseIsNamed) {
  RealAgent a("a", Echo()), b("b", Echo());
  const std::string address = a.Listen();
  EXPECT_THAT(b.node().Listen(address), StatusIs(absl::StatusCode::kUnavailable,
                                                 AllOf(HasSubstr(address), HasSubstr("in use"))));
}

TEST(NodeOverGrpc, ListensOnIpv6AndNames) {
  RealAgent a("a", Echo()), b("b", Echo());
  const std::string six = b.Listen("[::1]:0");
  if (!six.empty()) {  // machines without IPv6 exist
    ASSERT_THAT(a.node().AddPeer("b", six), IsOk());
    EXPECT_THAT(a.Call("b", "echo", "six"), IsOkAndHolds("six"));
  }
  RealAgent c("c", Echo());
  ASSERT_THAT(a.node().AddPeer("c", c.Listen("localhost:0")), IsOk());
  EXPECT_THAT(a.Call("c", "echo", "name"), IsOkAndHolds("name"));
}

TEST(NodeOverGrpc, LeavingTakesLittleTimeAndEndsCallsWithAWord) {
  RealAgent a("a", Echo());
  auto b = std::make_unique<RealAgent>("b", Echo());
  ASSERT_THAT(a.node().AddPeer("b", b->Listen()), IsOk());
  ASSERT_THAT(a.Call("b", "echo", ""), IsOk());
  b->node().Close(absl::UnavailableError("maintenance"));
  EXPECT_THAT(b->node().Join(absl::Seconds(5)), IsOk());
  b = nullptr;
  EXPECT_TRUE(WaitUntil([&] { return !a.node().Peers()[0].has_session; }));
}

TEST(NodeOverGrpc, TokensGuardTheDoor) {
  const std::string right(32, 'k'), wrong(32, 'w');
  RealAgent b("b", Echo(), {}, right);
  const std::string address = b.Listen();
  RealAgent a("a", Echo(), {}, right), stranger("stranger", Echo(), {}, wrong);
  ASSERT_THAT(a.node().AddPeer("b", address), IsOk());
  ASSERT_THAT(stranger.node().AddPeer("b", address), IsOk());
  EXPECT_THAT(a.Call("b", "echo", "in"), IsOkAndHolds("in"));
  EXPECT_THAT(stranger.Call("b", "echo", "in"), StatusIs(absl::StatusCode::kUnauthenticated));
}

}  // namespace
}  // namespace gradwire::rpc::testing
