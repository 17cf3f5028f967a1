// A node between listening and having joined, and peers that move, on the simulated network.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

class NodeJoin : public ::testing::Test {
 protected:
  struct Process {
    SimProcess* process = nullptr;
    std::unique_ptr<BufferPool> pool;
    std::vector<std::pair<PeerIdentity, absl::Status>> ended;  // the node writes to it to its end
    std::unique_ptr<Node> node;
  };

  // `host` may differ from the agent's name.
  Process& Start(const std::string& host, const std::string& name, Incarnation incarnation) {
    Process& started = processes_[host];
    started.process = network_.AddProcess(host);
    started.pool = std::make_unique<BufferPool>(*started.process->clock());
    NodeOptions options;
    options.name = name;
    options.incarnation = incarnation;
    options.limits.join_timeout = absl::ZeroDuration();
    options.functions = *FunctionTable::Build(
        {TextFunction("who", [name](CallInfo&, const std::string&) { return name; }, kInline)});
    options.resolve = [this](const std::string& peer) {
      ++resolved_count_;
      const auto found = rendezvous_.find(peer);
      return Future<std::string>(found == rendezvous_.end()
                                     ? absl::StatusOr<std::string>(absl::UnavailableError("down"))
                                     : found->second);
    };
    options.on_session_end = [&started](const PeerIdentity& peer, SessionId,
                                        const absl::Status& why) {
      started.ended.emplace_back(peer, why);
    };
    options.transport = started.process->transport();
    options.clock = started.process->clock();
    options.rng = started.process->rng();
    options.executor = started.process->executor();
    options.pool = started.pool.get();
    started.node = *Node::Create(std::move(options));
    EXPECT_THAT(started.node->Listen("sim:" + host), IsOk());
    return started;
  }
  absl::StatusOr<std::string> Who(Process& from, const std::string& to) {
    std::optional<absl::StatusOr<std::string>> result;
    from.node->StartCall(to, from.node->Intern("who", "string(string)"), Payload(), {},
                         [&result](absl::StatusOr<ReceivedPayload> outcome) {
                           if (outcome.ok()) {
                             result = std::string(AsText(outcome->head.bytes()));
                           } else {
                             result = outcome.status();
                           }
                         });
    loop_.RunUntil([&] { return result.has_value(); }, loop_.Now() + absl::Hours(1));
    return result.value_or(absl::UnknownError("did not end"));
  }
  void Kill(const std::string& host) {
    network_.Kill(processes_.at(host).process, /*silent=*/false);
    processes_.erase(host);
  }
  ~NodeJoin() override {
    for (auto& [host, process] : processes_) process.node->Close(absl::CancelledError("over"));
    loop_.RunFor(absl::Seconds(5));
  }

  SimLoop loop_;
  SimNetwork network_{&loop_, 1};
  std::map<std::string, std::string> rendezvous_;  // name to address; empty: it is down
  int resolved_count_ = 0;
  std::map<std::string, Process> processes_;
};

TEST_F(NodeJoin, NobodyIsLetInBeforeTheIncarnationIsKnown) {
  Process& a = Start("a", "a", Incarnation{5});
  Process& b = Start("b", "b", Incarnation{});
  ASSERT_THAT(a.node->AddPeer("b", "sim:b"), IsOk());
  EXPECT_EQ(b.node->incarnation(), Incarnation{});
  EXPECT_THAT(Who(b, "a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("agent b has not joined")));
  const Future<void> connected = a.node->Connect("b");
  loop_.RunFor(absl::Seconds(1));
  EXPECT_FALSE(connected.ready());
  EXPECT_THAT(b.node->SetIncarnation(Incarnation{}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(b.node->SetIncarnation(Incarnation{6}), IsOk());
  EXPECT_THAT(b.node->SetIncarnation(Incarnation{7}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(b.node->incarnation(), Incarnation{6});
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  EXPECT_TRUE(connected.ready());
}

TEST_F(NodeJoin, AKnownAddressIsTriedFirstAndTheRendezvousThen) {
  Process& a = Start("a", "a", Incarnation{1});
  Start("b1", "b", Incarnation{2});
  ASSERT_THAT(a.node->AddPeer("b", "sim:b1"), IsOk());
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  EXPECT_EQ(resolved_count_, 0);
  Kill("b1");
  Start("b2", "b", Incarnation{3});
  rendezvous_["b"] = "sim:b2";
  // What was on the way may have run; the call after it goes to the new place.
  (void)Who(a, "b");
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  EXPECT_GT(resolved_count_, 0);
}

TEST_F(NodeJoin, AStrangerAtTheOldAddressIsNotTheLastWord) {
  Process& a = Start("a", "a", Incarnation{1});
  Start("old", "x", Incarnation{2});
  Start("new", "b", Incarnation{3});
  ASSERT_THAT(a.node->AddPeer("b", "sim:old"), IsOk());
  rendezvous_["b"] = "sim:new";
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  // One that the rendezvous names too is.
  ASSERT_THAT(a.node->AddPeer("c", "sim:old"), IsOk());
  rendezvous_["c"] = "sim:old";
  EXPECT_THAT(Who(a, "c"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("this is agent x, not c")));
}

TEST_F(NodeJoin, WithoutARendezvousTheOldAddressGoesOn) {
  Process& a = Start("a", "a", Incarnation{1});
  ASSERT_THAT(a.node->AddPeer("b", "sim:b"), IsOk());
  loop_.CallAfter(absl::Seconds(2), [this] { Start("b", "b", Incarnation{2}); });
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  EXPECT_GT(resolved_count_, 0);
}

TEST_F(NodeJoin, EarlierLivesThanTheKnownOneAreOver) {
  Process& a = Start("a", "a", Incarnation{1});
  Process& b = Start("b", "b", Incarnation{2});
  ASSERT_THAT(a.node->AddPeer("b", "sim:b", /*any_name=*/false, Incarnation{3}), IsOk());
  ASSERT_THAT(b.node->AddPeer("a", "sim:a"), IsOk());
  EXPECT_THAT(Who(b, "a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("incarnation 2 of b")));
}

TEST_F(NodeJoin, TheEndOfASessionIsTold) {
  Process& a = Start("a", "a", Incarnation{1});
  Start("b", "b", Incarnation{2});
  ASSERT_THAT(a.node->AddPeer("b", "sim:b"), IsOk());
  EXPECT_THAT(Who(a, "b"), IsOkAndHolds("b"));
  EXPECT_TRUE(a.ended.empty());
  Kill("b");
  loop_.RunFor(absl::Seconds(20));
  ASSERT_EQ(a.ended.size(), 1u);
  EXPECT_EQ(a.ended[0].first.name, "b");
  EXPECT_EQ(a.ended[0].first.incarnation, Incarnation{2});
  EXPECT_THAT(a.ended[0].second, StatusIs(absl::StatusCode::kUnavailable));
  // One that was never reached has no incarnation.
  EXPECT_FALSE(Who(a, "b").ok());
  ASSERT_EQ(a.ended.size(), 2u);
  EXPECT_EQ(a.ended[1].first.incarnation, Incarnation{});
}

}  // namespace
}  // namespace gradwire::rpc::testing
