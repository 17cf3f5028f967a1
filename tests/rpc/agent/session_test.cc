// Two agents on the simulated network: what a call promises, with and without faults.
#include "rpc/agent/session.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<BoundFunction> Echo() {
  return {TextFunction("echo", [](CallInfo&, std::string text) { return text; }),
          TextFunction(
              "echo.inline", [](CallInfo&, std::string text) { return text; }, kInline),
          TextFunction("fail",
                       [](CallInfo&, std::string text) -> absl::StatusOr<std::string> {
                         return absl::DataLossError("bad " + text);
                       }),
          TextFunction("who", [](CallInfo& info, std::string) { return info.caller(); })};
}

// Keeps calls open until the test answers them.
struct Held {
  std::vector<std::shared_ptr<CallInfo>> infos;
  std::vector<ReplyFn> replies;
  BoundFunction Function() {
    BoundFunction bound;
    bound.name = "held";
    bound.declaration = "string(string)";
    bound.place = "test";
    bound.run = kInline;
    bound.handler = [this](std::shared_ptr<CallInfo> info, ReceivedPayload, ReplyFn reply) {
      infos.push_back(std::move(info));
      replies.push_back(std::move(reply));
    };
    return bound;
  }
};

Payload Text(const std::string& text) {
  Payload payload;
  payload.head = Buffer::FromString(text);
  return payload;
}

// An outcome to wait for in the simulated world.
class Result {
 public:
  ReplyCallback Callback() {
    return [outcome = outcome_](absl::StatusOr<ReceivedPayload> result) {
      ASSERT_FALSE(outcome->has_value()) << "ended twice";
      *outcome = std::move(result);
    };
  }
  bool done() const { return outcome_->has_value(); }
  absl::Status status() const {
    return done() ? (*outcome_)->status() : absl::UnknownError("has not ended");
  }
  const ReceivedPayload& payload() const { return ***outcome_; }

 private:
  // Shared, since the call may end after the test's variable.
  std::shared_ptr<std::optional<absl::StatusOr<ReceivedPayload>>> outcome_ =
      std::make_shared<std::optional<absl::StatusOr<ReceivedPayload>>>();
};

TEST(Session, CallsRunAndAnswer) {
  SimCluster cluster(1);
  cluster.Start("a", Echo());
  cluster.Start("b", Echo());
  EXPECT_THAT(cluster.Call("a", "b", "echo", "hello"), IsOkAndHolds("hello"));
  EXPECT_THAT(cluster.Call("a", "b", "echo.inline", ""), IsOkAndHolds(""));
  EXPECT_THAT(cluster.Call("a", "b", "who", ""), IsOkAndHolds("a"));
  EXPECT_THAT(cluster.Call("b", "a", "who", ""),
              IsOkAndHolds("b"));  // the same session, the other way
  EXPECT_EQ(cluster["a"].node->stats().sessions_opened, 1u);
  EXPECT_EQ(cluster["b"].node->stats().sessions_opened, 1u);
}

// Where many calls are in flight and answers flow, requests wait for company; never for long, and
// not while somebody waits for them.
TEST(Session, RequestsOfAPipelineLeaveTogetherAndInTime) {
  SimCluster cluster(1);
  cluster.network().faults().delay_min = absl::Microseconds(50);
  cluster.network().faults().delay_max = absl::Microseconds(50);
  Held held;
  SimAgent& a = cluster.Start("a", Echo());
  std::vector<BoundFunction> functions = Echo();
  functions.push_back(held.Function());
  cluster.Start("b", std::move(functions));
  ASSERT_THAT(cluster.Call("a", "b", "echo.inline", ""), IsOk());
  const auto start = [&](const char* function) {
    Result result;
    const CallHandle handle =
        a.node->StartCall("b", a.node->Intern(function, "string(string)"), Text("x"),
                          {.timeout = absl::Hours(1)}, result.Callback());
    return std::pair(result, handle);
  };
  std::vector<std::pair<Result, CallHandle>> open;
  for (int i = 0; i < 16; ++i) open.push_back(start("held"));
  cluster.loop().RunFor(absl::Milliseconds(50));
  ASSERT_EQ(held.replies.size(), 16u);
  const auto time_of = [&](bool somebody_waits) {
    const absl::Time begin = cluster.loop().Now();
    auto [result, handle] = start("echo.inline");
    if (somebody_waits) (void)handle.wait_driver()->wait_driver();
    cluster.loop().RunUntil([&] { return result.done(); }, begin + absl::Seconds(1));
    EXPECT_THAT(result.status(), IsOk());
    return cluster.loop().Now() - begin;
  };
  // No answer came for a while: at once, whoever waits.
  EXPECT_LE(time_of(false), absl::Microseconds(110));
  // An answer has just come.
  const absl::Duration together = time_of(false);
  EXPECT_GE(together, absl::Microseconds(200));
  EXPECT_LE(together, absl::Microseconds(220));
  EXPECT_LE(time_of(true), absl::Microseconds(110));
}

TEST(Session, ErrorsNameTheFunctionAndThePeer) {
  SimCluster cluster(1);
  cluster.Start("a", Echo());
  cluster.Start("b", Echo());
  EXPECT_THAT(cluster.Call("a", "b", "fail", "luck"),
              StatusIs(absl::StatusCode::kDataLoss, "fail on b: bad luck"));
  EXPECT_THAT(cluster.Call("a", "b", "ehco", ""),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("did you mean echo?")));
  EXPECT_THAT(cluster.Call("a", "b", "no such", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("function name")));
}

TEST(Session, OtherTypesUnderTheSameNameShowBoth) {
  SimCluster cluster(1);
  SimAgent& a = cluster.Start("a", Echo());
  cluster.Start("b", Echo());
  Result result;
  a.node->StartCall("b", a.node->Intern("echo", "int64(int64)"), Text(""), {}, result.Callback());
  cluster.loop().RunFor(absl::Seconds(1));
  EXPECT_THAT(result.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("string(string)"), HasSubstr("int64(int64)"))));
}

TEST(Session, ACallToItselfRunsHere) {
  SimCluster cluster(1);
  cluster.Start("a", Echo());
  EXPECT_THAT(cluster.Call("a", "a", "echo", "me"), IsOkAndHolds("me"));
  EXPECT_THAT(cluster.Call("a", "a", "fail", "me"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(cluster.Call("a", "a", "none", ""), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(cluster["a"].node->stats().sessions_opened, 0u);
}

TEST(Session, AnUnreachablePeerFailsWithinTheConnectTimeout) {
  SimCluster cluster(1);
  cluster.Start("a", Echo());
  const absl::Time start = cluster.loop().Now();
  EXPECT_THAT(cluster.Call("a", "nobody", "echo", ""),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("nobody"), HasSubstr("connection refused"),
                             HasSubstr("is it running"))));
  EXPECT_LT(cluster.loop().Now() - start, absl::Seconds(8));
}

TEST(Session, TheDeadlineEndsACallWhoseHandlerNeverReturns) {
  Held held;
  SimCluster cluster(1);
  cluster.Start("a", Echo());
  cluster.Start("b", {held.Function()});
  const absl::Time start = cluster.loop().Now();
  EXPECT_THAT(cluster.Call("a", "b", "held", "", {.timeout = absl::Seconds(2)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("held"), HasSubstr("to b"), HasSubstr("may have run"))));
  EXPECT_LT(absl::AbsDuration(cluster.loop().Now() - start - absl::Seconds(2)),
            absl::Milliseconds(1));
  cluster.loop().RunFor(absl::Seconds(1));
  ASSERT_EQ(held.infos.size(), 1u);
  EXPECT_TRUE(held.infos[0]->cancelled());
  held.replies[0](Text("late"));  // nobody reads it; nothing breaks
  cluster.loop().RunFor(absl::Seconds(1));
}

TEST(Session, CancelEndsTheCallAndTellsTheHandler) {
  Held held;
  SimCluster cluster(1);
  SimAgent& a = cluster.Start("a", Echo());
  cluster.Start("b", {held.Function()});
  Result result;
  CallHandle call = a.node->StartCall("b", a.node->Intern("held", "string(string)"), Text(""), {},
                                      result.Callback());
  cluster.loop().RunUntil([&] { return !held.infos.empty(); },
                          cluster.loop().Now() + absl::Seconds(5));
  int told = 0;
  held.infos.at(0)->OnCancel([&] { ++told; });
  call.Cancel();
  EXPECT_THAT(result.status(), StatusIs(absl::StatusCode::kCancelled));
  cluster.loop().RunFor(absl::Seconds(1));
  EXPECT_EQ(told, 1);
  held.replies.clear();
}

TEST(Session, AHandlerThatDropsItsReplyIsAnsweredFor) {
  SimCluster cluster(1);
  BoundFunction drop;
  drop.name = "drop";
  drop.declaration = "string(string)";
  drop.handler = [](std::shared_ptr<CallInfo>, ReceivedPayload, ReplyFn) {};
  cluster.Start("a", Echo());
  cluster.Start("b", {drop});
  EXPECT_THAT(cluster.Call("a", "b", "drop", ""),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("drop")));
}

TEST(Session, LargeBytesTravelBothWaysOnTheBulkLane) {
  SimCluster cluster(1);
  BoundFunction flip;
  flip.name = "flip";
  flip.declaration = "string(string)";
  flip.handler = [](std::shared_ptr<CallInfo>, ReceivedPayload arguments, ReplyFn reply) {
    ASSERT_EQ(arguments.attachments.size(), 3u);
    EXPECT_FALSE(arguments.attachments[0].exclusive);  // small: in the frame
    EXPECT_TRUE(arguments.attachments[1].exclusive);   // large: a pooled block of its own
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arguments.attachments[1].bytes.data()) % 64, 0u);
    Payload payload;
    payload.head = std::move(arguments.head);
    for (int i = 2; i >= 0; --i)
      payload.attachments.push_back(std::move(arguments.attachments[i].bytes));
    reply(std::move(payload));
  };
  SimAgent& a = cluster.Start("a", {});
  cluster.Start("b", {flip});
  Payload payload;
  const std::string head(200'000, 'h'), small(100, 's'), big(5'000'000, 'b'), other(70'000, 'o');
  payload.head = Buffer::FromString(head);
  for (const std::string& part : {small, big, other})
    payload.attachments.push_back(Buffer::FromString(part));
  Result result;
  a.node->StartCall("b", a.node->Intern("flip", "string(string)"), std::move(payload), {},
                    result.Callback());
  cluster.loop().RunUntil([&] { return result.done(); }, cluster.loop().Now() + absl::Seconds(30));
  ASSERT_THAT(result.status(), IsOk());
  const ReceivedPayload& got = result.payload();
  EXPECT_EQ(AsText(got.head.bytes()), head);
  ASSERT_EQ(got.attachments.size(), 3u);
  EXPECT_EQ(AsText(got.attachments[0].bytes.bytes()), other);
  EXPECT_EQ(AsText(got.attachments[1].bytes.bytes()), big);
  EXPECT_EQ(AsText(got.attachments[2].bytes.bytes()), small);
}

TEST(Session, CallsBeyondTheWindowWaitForCredit) {
  Held held;
  SimCluster cluster(1);
  cluster.limits().call_window = 4;
  cluster.limits().max_running_count = 2;
  SimAgent& a = cluster.Start("a", Echo());
  cluster.Start("b", {held.Function()});
  std::vector<Result> results(20);
  for (Result& result : results) {
    a.node->StartCall("b", a.node->Intern("held", "string(string)"), Text(""), {},
                      result.Callback());
  }
  cluster.loop().RunFor(absl::Seconds(1));
  // Two run; four more were admitted and wait; the rest waits at the caller.
  EXPECT_EQ(held.replies.size(), 2u);
  EXPECT_EQ(cluster["b"].node->stats().calls_received, 6u);
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_LT(i, held.replies.size());
    held.replies[i](Text("done"));
    cluster.loop().RunFor(absl::Milliseconds(100));
  }
  for (Result& result : results) EXPECT_THAT(result.status(), IsOk());
}

TEST(Session, TooManyWaitingCallsAreRefusedByName) {
  SimCluster cluster(1);
  cluster.limits().max_waiting_count = 3;
  SimAgent& a = cluster.Start("a", Echo());
  std::vector<Result> results(5);
  for (Result& result : results) {
    a.node->StartCall("b", a.node->Intern("echo", "string(string)"), Text(""), {},
                      result.Callback());
  }
  EXPECT_THAT(results[4].status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_waiting_count")));
}

TEST(Session, ACutIsResumedAndNothingRunsTwice) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimCluster cluster(seed);
    int runs = 0;
    SimAgent& a = cluster.Start("a", Echo());
    cluster.Start(
        "b",
        {TextFunction("count", [&](CallInfo&, std::string) { return std::to_string(++runs); })});
    ASSERT_THAT(cluster.Call("a", "b", "count", ""), IsOk());
    std::vector<Result> results(200);
    for (size_t i = 0; i < results.size(); ++i) {
      a.node->StartCall("b", a.node->Intern("count", "string(string)"), Text(""), {},
                        results[i].Callback());
      cluster.loop().RunFor(absl::Microseconds(30));
      if (i % 50 == 25) cluster.network().Cut("a", "b");
    }
    cluster.loop().RunFor(absl::Seconds(4));
    for (Result& result : results) EXPECT_THAT(result.status(), IsOk()) << seed;
    EXPECT_EQ(runs, 201);
    EXPECT_GE(cluster["a"].node->stats().sessions_resumed, 1u);
    EXPECT_EQ(cluster["a"].node->stats().sessions_buried, 0u);
  }
}

TEST(Session, LargeBytesSurviveCutsAtEveryMoment) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SimCluster cluster(seed);
    SimAgent& a = cluster.Start("a", Echo());
    cluster.Start("b", Echo());
    ASSERT_THAT(cluster.Call("a", "b", "echo", ""), IsOk());
    const std::string big(8 << 20, 'x');
    Result result;
    a.node->StartCall("b", a.node->Intern("echo", "string(string)"), Text(big), {},
                      result.Callback());
    cluster.loop().RunFor(absl::Microseconds(100 * seed));
    cluster.network().Cut("a", "b");
    cluster.loop().RunUntil([&] { return result.done(); },
                            cluster.loop().Now() + absl::Seconds(30));
    ASSERT_THAT(result.status(), IsOk()) << seed;
    EXPECT_EQ(result.payload().head.size(), big.size());
  }
}

TEST(Session, ASilentPeerIsNoticedAndTheCallsEnd) {
  SimCluster cluster(3);
  cluster.Start("a", Echo());
  cluster.Start("b", Echo());
  ASSERT_THAT(cluster.Call("a", "b", "echo", ""), IsOk());
  cluster.Kill("b", /*silent=*/true);
  const absl::Time start = cluster.loop().Now();
  EXPECT_THAT(cluster.Call("a", "b", "echo", "x"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("did not come back")));
  EXPECT_LT(cluster.loop().Now() - start, absl::Seconds(11));  // 5 s of silence, 5 s to come back
}

TEST(Session, APausedPeerGoesOnWhereItWas) {
  SimCluster cluster(3);
  cluster.Start("a", Echo());
  SimAgent& b = cluster.Start("b", Echo());
  ASSERT_THAT(cluster.Call("a", "b", "echo", ""), IsOk());
  cluster.network().Pause(b.process);
  cluster.loop().CallAfter(absl::Seconds(3), [&] { cluster.network().Resume(b.process); });
  EXPECT_THAT(cluster.Call("a", "b", "echo", "after"), IsOkAndHolds("after"));
  EXPECT_EQ(cluster["a"].node->stats().sessions_buried, 0u);
}

TEST(Session, ARestartedPeerEndsOldCallsAndTakesNewOnes) {
  Held held;
  SimCluster cluster(3);
  SimAgent& a = cluster.Start("a", Echo());
  cluster.Start("b", {held.Function()});
  Result old;
  a.node->StartCall("b", a.node->Intern("held", "string(string)"), Text(""), {}, old.Callback());
  cluster.loop().RunUntil([&] { return !held.replies.empty(); },
                          cluster.loop().Now() + absl::Seconds(5));
  cluster.Kill("b");
  cluster.Start("b", Echo());
  cluster.loop().RunFor(absl::Seconds(3));
  EXPECT_THAT(old.status(), StatusIs(absl::StatusCode::kAborted, HasSubstr("restarted")));
  EXPECT_THAT(cluster.Call("a", "b", "echo", "new"), IsOkAndHolds("new"));
}

TEST(Session, AnOldIncarnationIsRefused) {
  SimCluster cluster(3);
  cluster.Start("a", Echo());
  cluster.Start("b", Echo());
  ASSERT_THAT(cluster.Call("b", "a", "echo", ""), IsOk());
  // A twin of b with a smaller incarnation (a zombie) tries the same.
  SimProcess* zombie = cluster.network().AddProcess("zombie-host");
  BufferPool pool(*zombie->clock());
  NodeOptions options;
  options.name = "b";
  options.incarnation = Incarnation{1};
  options.limits = cluster.limits();
  options.transport = zombie->transport();
  options.clock = zombie->clock();
  options.rng = zombie->rng();
  options.executor = zombie->executor();
  options.pool = &pool;
  std::unique_ptr<Node> node = *Node::Create(options);
  ASSERT_THAT(node->AddPeer("a", "sim:a"), IsOk());
  Future<void> connected = node->Connect("a");
  cluster.loop().RunFor(absl::Seconds(1));
  ASSERT_TRUE(connected.ready());
  EXPECT_THAT(connected.outcome(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            HasSubstr("incarnation 1 of b is over")));
  EXPECT_THAT(cluster.Call("b", "a", "echo", "still"), IsOkAndHolds("still"));
  node->Close(absl::CancelledError("over"));
  cluster.loop().RunFor(absl::Seconds(2));
}

TEST(Session, LeavingTellsThePeerAtOnce) {
  Held held;
  SimCluster cluster(3);
  SimAgent& a = cluster.Start("a", Echo());
  SimAgent& b = cluster.Start("b", {held.Function()});
  Result result;
  a.node->StartCall("b", a.node->Intern("held", "string(string)"), Text(""), {}, result.Callback());
  cluster.loop().RunUntil([&] { return !held.replies.empty(); },
                          cluster.loop().Now() + absl::Seconds(5));
  b.node->Close(absl::UnavailableError("maintenance"));
  cluster.loop().RunFor(absl::Milliseconds(50));
  EXPECT_THAT(result.status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("maintenance")));
  cluster.loop().RunFor(absl::Seconds(2));
  EXPECT_TRUE(b.node->drained());
  held.replies.clear();
}

TEST(Session, BothDialAtOnceAndOneSessionSurvives) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimCluster cluster(seed);
    SimAgent& a = cluster.Start("a", Echo());
    SimAgent& b = cluster.Start("b", Echo());
    Result there, back;
    a.node->StartCall("b", a.node->Intern("who", "string(string)"), Text(""), {}, there.Callback());
    cluster.loop().RunFor(absl::Microseconds(static_cast<int64_t>(seed) * 5));
    b.node->StartCall("a", b.node->Intern("who", "string(string)"), Text(""), {}, back.Callback());
    cluster.loop().RunFor(absl::Seconds(2));
    ASSERT_THAT(there.status(), IsOk()) << seed;
    ASSERT_THAT(back.status(), IsOk()) << seed;
    EXPECT_EQ(a.node->stats().sessions_buried, 0u) << seed;
    EXPECT_EQ(a.node->Peers()[0].session_state, SessionState::kAttached);
  }
}

TEST(Hello, TokensMustAgree) {
  const std::string right(32, 'k'), wrong(32, 'w');
  {
    SimCluster cluster(1);
    cluster.Start("a", Echo(), right);
    cluster.Start("b", Echo(), right);
    EXPECT_THAT(cluster.Call("a", "b", "echo", "x"), IsOkAndHolds("x"));
  }
  for (const auto& [a, b] :
       std::vector<std::pair<std::string, std::string>>{{right, wrong}, {right, ""}, {"", right}}) {
    SimCluster cluster(1);
    cluster.Start("a", Echo(), a);
    cluster.Start("b", Echo(), b);
    EXPECT_THAT(cluster.Call("a", "b", "echo", "x"),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--token-file")));
    EXPECT_EQ(cluster["b"].node->stats().sessions_opened, 0u);
  }
}

}  // namespace
}  // namespace gradwire::rpc::testing
