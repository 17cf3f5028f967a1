// Agents in processes of their own that are killed, paused, restarted, told to leave, and started
// wrong: every call ends with an error that says what happened, and what can go on goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/agent.h"
#include "rpc/tensor/values.h"
#include "tests/rpc/agent_process.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

// Short, so that the tests are.
AgentLimits Limits() {
  AgentLimits limits;
  limits.liveness_timeout = absl::Seconds(1);
  limits.heartbeat = absl::Milliseconds(200);
  limits.resume_window = absl::Seconds(1);
  limits.connect_timeout = absl::Seconds(2);
  return limits;
}

std::unique_ptr<Agent> StartCaller(const AgentProcess& server) {
  auto agent = Agent::Start({.name = "a", .peers = "b=" + server.address(), .limits = Limits()});
  EXPECT_THAT(agent, IsOk());
  return agent.ok() ? *std::move(agent) : nullptr;
}

// Calls that run at the peer and don't come back.
std::vector<Future<std::string>> Hold(const Peer& peer, int count) {
  std::vector<Future<std::string>> calls;
  for (int i = 0; i < count; ++i) calls.push_back(peer.Async(kHold("")));
  EXPECT_TRUE(WaitUntil([&] {
    const absl::StatusOr<int64_t> held = peer.Call(kHeldCount());
    return held.ok() && *held == count;
  }));
  return calls;
}

// What every failed call of Hold's says besides the cause: function, peer, phase, elapsed time.
::testing::Matcher<std::string> NamesTheCall() {
  return ContainsRegex("call test\\.hold to b \\(sent, waiting for the reply, after [0-9.]+m?s");
}

TEST(ProcessFaults, AKilledPeerEndsEveryCall) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto a = StartCaller(*b);
  const std::vector<Future<std::string>> calls = Hold(a->At("b"), 20);
  b->Signal(SIGKILL);
  for (const Future<std::string>& call : calls) {
    EXPECT_THAT(call.Wait(kPatience),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(NamesTheCall(), HasSubstr("did not come back within 1s"))));
  }
  EXPECT_THAT(a->At("b").Call(kEcho("x")),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("test.echo to b"), HasSubstr(b->address()),
                             HasSubstr("is it running"))));
  EXPECT_EQ(a->stats().calls_started, a->stats().calls_ended);
}

TEST(ProcessFaults, ABriefPauseLosesNothing) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  AgentLimits limits = Limits();
  limits.resume_window = kPatience;
  auto a = Agent::Start({.name = "a", .peers = "b=" + b->address(), .limits = limits});
  ASSERT_THAT(a, IsOk());
  const Peer peer = (*a)->At("b");
  const std::vector<Future<std::string>> held = Hold(peer, 1);
  b->Pause();
  const Future<std::string> during = peer.Async(kEcho("meanwhile"));
  // Past liveness_timeout: the connection is given up, the session is not.
  ASSERT_TRUE(WaitUntil([&] { return (*a)->Peers()[0].session_state == SessionState::kDetached; }));
  EXPECT_FALSE(during.ready());
  b->Signal(SIGCONT);
  EXPECT_THAT(during.Wait(kPatience), IsOkAndHolds("meanwhile"));
  EXPECT_THAT(peer.Call(kHeldCount()), IsOkAndHolds(1));
  EXPECT_FALSE(held[0].ready());
  EXPECT_GE((*a)->stats().sessions_resumed, 1u);
  EXPECT_EQ((*a)->stats().sessions_buried, 0u);
}

TEST(ProcessFaults, ALongPauseEndsTheCallsAndLaterOnesWork) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto a = StartCaller(*b);
  const Peer peer = a->At("b");
  const std::vector<Future<std::string>> held = Hold(peer, 3);
  b->Pause();
  for (const Future<std::string>& call : held) {
    EXPECT_THAT(call.Wait(kPatience),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(NamesTheCall(), HasSubstr("did not come back within 1s"))));
  }
  const Future<std::string> late = peer.Async(kEcho("again"));
  b->Signal(SIGCONT);
  EXPECT_THAT(late.Wait(kPatience), IsOkAndHolds("again"));
  // What the lost session ran has been told; nothing of it is left there.
  EXPECT_TRUE(WaitUntil([&] {
    const absl::StatusOr<int64_t> count = peer.Call(kHeldCount());
    return count.ok() && *count == 0;
  }));
}

TEST(ProcessFaults, ARestartedPeerEndsOldCallsAndTakesNewOnes) {
  auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  AgentLimits limits = Limits();
  limits.resume_window = kPatience;
  auto a = Agent::Start({.name = "a", .peers = "b=" + b->address(), .limits = limits});
  ASSERT_THAT(a, IsOk());
  const Peer peer = (*a)->At("b");
  const std::vector<Future<std::string>> held = Hold(peer, 3);
  EXPECT_THAT(peer.Call(kPid()), IsOkAndHolds(b->pid()));
  b->Signal(SIGKILL);
  ASSERT_THAT(b->WaitForEnd(kPatience), IsOk());
  const auto next = AgentProcess::Start({"--name=b", "--listen=" + b->address()});
  ASSERT_THAT(next->status(), IsOk());
  for (const Future<std::string>& call : held) {
    EXPECT_THAT(call.Wait(kPatience), StatusIs(absl::StatusCode::kAborted,
                                               AllOf(NamesTheCall(), HasSubstr("b was restarted"),
                                                     HasSubstr(absl::StrCat(b->incarnation())),
                                                     HasSubstr(absl::StrCat(next->incarnation())),
                                                     HasSubstr("may or may not have run"))));
  }
  EXPECT_THAT(peer.Call(kPid()), IsOkAndHolds(next->pid()));
}

TEST(ProcessFaults, APortInUseIsNamed) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto c = AgentProcess::Start({"--name=c", "--listen=" + b->address()});
  EXPECT_THAT(c->status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("agent c"), HasSubstr(b->address()), HasSubstr("in use"))));
  const absl::StatusOr<int> end = c->WaitForEnd(kPatience);
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(WEXITSTATUS(*end), 1);
}

TEST(ProcessFaults, BeyondLoopbackNeedsATokenAndAWord) {
  const auto b = AgentProcess::Start({"--name=b", "--listen=0.0.0.0:0"});
  EXPECT_THAT(b->status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("agent b"), HasSubstr("0.0.0.0:0"),
                             HasSubstr("--token-file"), HasSubstr("--insecure-transport"))));
}

TEST(ProcessFaults, ATerminatedAgentLeavesWithAWord) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto a = StartCaller(*b);
  const std::vector<Future<std::string>> held = Hold(a->At("b"), 3);
  const absl::Time start = Clock::Real().Now();
  b->Signal(SIGTERM);
  for (const Future<std::string>& call : held) {
    EXPECT_THAT(call.Wait(kPatience), StatusIs(absl::StatusCode::kUnavailable,
                                               AllOf(NamesTheCall(), HasSubstr("b left"))));
  }
  EXPECT_THAT(b->ReadLine(), IsOkAndHolds("left 0 "));
  const absl::StatusOr<int> end = b->WaitForEnd(kPatience);
  ASSERT_THAT(end, IsOk());
  EXPECT_TRUE(WIFEXITED(*end) && WEXITSTATUS(*end) == 0) << *end;
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(5));
}

}  // namespace
}  // namespace gradwire::rpc::testing
