// Agents in processes of their own that are killed, paused, restarted, told to leave, and started
// wrong: every call ends with an error that says what happened, and what can go on goes on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/agent.h"
#include "rpc/agent/frame.h"
#include "rpc/agent/handshake.h"
#include "rpc/base/fs.h"
#include "rpc/tensor/values.h"
#include "rpc/transport/grpc/grpc_transport.h"
#include "tests/rpc/agent_process.h"
#include "tests/rpc/transport/talker.h"
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

TEST(ProcessFaults, ATerminatedAgentDoesNotWaitForAPausedPeer) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto c = AgentProcess::Start({"--name=c", "--peers=b=" + b->address()});
  ASSERT_THAT(c->status(), IsOk());
  EXPECT_THAT(c->Ask("call b x"), IsOkAndHolds("x"));
  c->Pause();
  b->Signal(SIGTERM);
  EXPECT_THAT(b->WaitForEnd(absl::Seconds(5)), IsOkAndHolds(0));
}

TEST(ProcessFaults, ATerminatedAgentDoesNotWaitForAHandlerThatNeverReturns) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto a = StartCaller(*b);
  const Peer peer = a->At("b");
  const Future<void> stuck = peer.Async(kStuck());
  ASSERT_TRUE(WaitUntil([&] {
    const absl::StatusOr<int64_t> held = peer.Call(kHeldCount());
    return held.ok() && *held == 1;
  }));
  b->Signal(SIGTERM);
  EXPECT_THAT(stuck.Wait(kPatience), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("b left")));
  const absl::StatusOr<int> end = b->WaitForEnd(absl::Seconds(5));
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(WEXITSTATUS(*end), 1) << b->Log();
  EXPECT_THAT(b->Log(), HasSubstr("a handler has not returned"));
}

// ---- who is not let in ----

// Whether the process has logged a warning with all of `words`.
bool Logged(const AgentProcess& process, const std::vector<std::string>& words) {
  for (absl::string_view line : absl::StrSplit(process.Log(), '\n')) {
    bool all = absl::StrContains(line, "level=warning");
    for (const std::string& word : words) all = all && absl::StrContains(line, word);
    if (all) return true;
  }
  return false;
}

class TokenFaults : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : paths_) EXPECT_THAT(FileSystem::Real().Remove(path), IsOk());
  }
  // A flag that names a file with a token of this letter.
  std::string TokenFlag(char letter) {
    paths_.push_back(
        absl::StrCat(::testing::TempDir(), "/gw-process-token-", getpid(), "-", paths_.size()));
    EXPECT_THAT(FileSystem::Real().WriteAtomically(paths_.back(), std::string(32, letter)), IsOk());
    EXPECT_EQ(chmod(paths_.back().c_str(), 0600), 0);
    return "--token-file=" + paths_.back();
  }
  // Both ends say the same: `what`.
  static void ExpectRefused(std::vector<std::string> server, std::vector<std::string> client,
                            const std::string& what) {
    server.push_back("--name=b");
    const auto b = AgentProcess::Start(server);
    ASSERT_THAT(b->status(), IsOk());
    client.push_back("--name=c");
    client.push_back("--peers=b=" + b->address());
    const auto c = AgentProcess::Start(client);
    ASSERT_THAT(c->status(), IsOk());
    EXPECT_THAT(c->Ask("connect b"), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(what)));
    EXPECT_TRUE(WaitUntil([&] { return Logged(*b, {"agent=c", what}); })) << b->Log();
  }

 private:
  std::vector<std::string> paths_;
};

TEST_F(TokenFaults, AWrongTokenIsToldToBothEnds) {
  ExpectRefused({TokenFlag('k')}, {TokenFlag('w')},
                "b has another job token; both sides need the same --token-file");
}

TEST_F(TokenFaults, AMissingTokenIsToldToBothEnds) {
  ExpectRefused({TokenFlag('k')}, {}, "this agent has none; start it with --token-file");
  ExpectRefused({}, {TokenFlag('k')}, "b has no job token");
}

TEST_F(TokenFaults, TheSameTokenLetsIn) {
  const auto b = AgentProcess::Start({"--name=b", TokenFlag('k')});
  ASSERT_THAT(b->status(), IsOk());
  const auto c = AgentProcess::Start({"--name=c", "--peers=b=" + b->address(), TokenFlag('k')});
  ASSERT_THAT(c->status(), IsOk());
  EXPECT_THAT(c->Ask("call b x"), IsOkAndHolds("x"));
}

TEST(NameFaults, ANameUsedTwiceIsTold) {
  const auto a = AgentProcess::Start({"--name=a"});
  ASSERT_THAT(a->status(), IsOk());
  const auto first = AgentProcess::Start({"--name=twin", "--peers=a=" + a->address()});
  ASSERT_THAT(first->status(), IsOk());
  EXPECT_THAT(first->Ask("call a 1"), IsOkAndHolds("1"));
  const auto second = AgentProcess::Start({"--name=twin", "--peers=a=" + a->address()});
  ASSERT_THAT(second->status(), IsOk());
  EXPECT_THAT(second->Ask("call a 2"), IsOkAndHolds("2"));
  // The younger one has the name; the older one learns it as soon as it calls.
  const std::string over = absl::StrCat("incarnation ", first->incarnation(), " of twin is over; ",
                                        second->incarnation(), " has been seen");
  absl::Status last;
  EXPECT_TRUE(WaitUntil([&] {
    last = first->Ask("call a 3").status();
    return absl::IsFailedPrecondition(last);
  })) << last;
  EXPECT_THAT(last.message(), AllOf(HasSubstr(over), HasSubstr("the name is used twice")));
  EXPECT_TRUE(WaitUntil([&] { return Logged(*a, {"agent=twin", over, "used twice"}); }));
  EXPECT_THAT(second->Ask("call a 4"), IsOkAndHolds("4"));
}

TEST(NameFaults, AnotherAgentAtTheAddressIsNamed) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto c = AgentProcess::Start({"--name=c", "--peers=x=" + b->address()});
  ASSERT_THAT(c->status(), IsOk());
  EXPECT_THAT(c->Ask("connect x"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("this is agent b, not x"), HasSubstr("address"))));
}

// ---- another wire version ----

Hello HelloOf(uint32_t version) {
  Hello hello;
  hello.version_major = version;
  hello.job = "default";
  hello.name = "other";
  hello.incarnation = 1;
  hello.nonce = std::string(kNonceBytes, 'n');
  hello.session = 1;
  return hello;
}

FrameView Read(const std::string& message) {
  FrameView frame;
  EXPECT_THAT(ParseFrame(Buffer::FromString(message), frame), IsOk());
  return frame;
}

TEST(VersionFaults, AnotherVersionThatDialsIsTold) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  const auto transport = MakeGrpcTransport();
  const auto talker = std::make_shared<Talker>();
  talker->SetConnection(transport->Dial(b->address(), Lane::kControl, talker, kPatience));
  FrameWriter writer;
  writer.Begin({});
  writer.SetHello(HelloOf(kVersionMajor + 1));
  BufferList message;
  writer.Finish(message);
  talker->Say(std::move(message));
  ASSERT_TRUE(WaitUntil([&] { return talker->closed(); }));
  ASSERT_EQ(talker->received_count(), 1u);
  const FrameView frame = Read(talker->received()[0]);
  ASSERT_TRUE(frame.hello_reply);
  EXPECT_EQ(frame.hello_reply->status_code,
            static_cast<uint32_t>(absl::StatusCode::kFailedPrecondition));
  const std::string what = "wire version 2.0 is not spoken here, only 1.x";
  EXPECT_THAT(frame.hello_reply->status_message, HasSubstr(what));
  EXPECT_TRUE(WaitUntil([&] { return Logged(*b, {"agent=other", what}); })) << b->Log();
}

TEST(VersionFaults, AnotherVersionThatAnswersIsTold) {
  const auto transport = MakeGrpcTransport();
  const auto talker = std::make_shared<Talker>();
  talker->on_message = [&](const std::string& text) {
    const FrameView frame = Read(text);
    if (!frame.hello) return;
    HelloReply reply;
    reply.version_major = kVersionMajor + 1;
    reply.job = "default";
    reply.name = "other";
    reply.incarnation = 1;
    reply.nonce = std::string(kNonceBytes, 'n');
    FrameWriter writer;
    writer.Begin({});
    writer.SetHelloReply(reply);
    BufferList message;
    writer.Finish(message);
    talker->Say(std::move(message));
  };
  const auto listener =
      transport->Listen("127.0.0.1:0", [&](std::shared_ptr<Connection> connection, Lane) {
        talker->SetConnection(std::move(connection));
        return talker;
      });
  ASSERT_THAT(listener, IsOk());
  const auto c = AgentProcess::Start({"--name=c", "--peers=other=" + (*listener)->address()});
  ASSERT_THAT(c->status(), IsOk());
  const std::string what = "other speaks wire version 2.0, this agent 1.0";
  EXPECT_THAT(c->Ask("connect other"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(what)));
  ASSERT_TRUE(WaitUntil([&] { return talker->closed(); }));
  const FrameView last = Read(talker->received().back());
  ASSERT_TRUE(last.goodbye);
  EXPECT_THAT(last.goodbye->status_message, HasSubstr(what));
}

}  // namespace
}  // namespace gradwire::rpc::testing
