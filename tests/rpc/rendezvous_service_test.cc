// The rendezvous as functions: called in memory, and over the simulated network with processes that
// die, meet twice and lose the server.
#include "rpc/rendezvous_service.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rpc/rendezvous_client.h"
#include "tests/rpc/agent/sim_cluster.h"
#include "tests/rpc/call_in_memory.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

JoinRequest Request(const std::string& name, uint64_t instance, int world_size = 0) {
  JoinRequest request;
  request.name = name;
  request.address = name + ".host:7000";
  request.instance = instance;
  request.world_size = world_size;
  return request;
}

// ---- in memory: every caller is "tester", without a session ----

class Service : public ::testing::Test {
 protected:
  Service() : service_(std::make_shared<RendezvousService>(&loop_, EmbeddedStoreOptions{})) {
    service_->Bind(functions_);
  }
  template <class R, class... Args>
  std::shared_ptr<Reply> Start(const BoundCall<R(Args...)>& call,
                               std::shared_ptr<FakeCallInfo> info = nullptr) {
    PayloadWriter out(Sharing::kBorrow, {}, call.name());
    EXPECT_THAT(call.Encode(out), IsOk());
    return ::gradwire::rpc::testing::Run(functions_, std::string(call.name()),
                                         Arrive(out.TakePayload()), info);
  }
  absl::StatusOr<Membership> Join(JoinRequest request) {
    GW_ASSIGN_OR_RETURN(const WireJoined joined,
                        Call(functions_, kRendezvousJoin(ToWire(request))));
    return FromWire(joined);
  }
  static PeerIdentity Tester() { return {"tester", Incarnation{7}}; }

  SimLoop loop_;
  std::shared_ptr<RendezvousService> service_;
  Registry functions_;
};

TEST_F(Service, LetsIn) {
  const absl::StatusOr<Membership> joined = Join(Request("a", 1));
  ASSERT_THAT(joined, IsOk());
  EXPECT_EQ(joined->self.name, "a");
  const absl::StatusOr<WireFound> found =
      Call(functions_, kRendezvousFind(WireFind{"a", kNoRank, absl::ZeroDuration()}));
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(FromWire(*found)->address, "a.host:7000");
}

TEST_F(Service, ACallerThatGivesUpIsWithdrawn) {
  auto info = std::make_shared<FakeCallInfo>("join");
  const auto reply = Start(kRendezvousJoin(ToWire(Request("a", 1, 2))), info);
  EXPECT_EQ(reply->count, 0);
  EXPECT_EQ(service_->store().Members().size(), 1u);
  info->Cancel();
  EXPECT_TRUE(service_->store().Members().empty());
}

TEST_F(Service, ACallerThatIsGoneAlreadyIsNotLetIn) {
  auto info = std::make_shared<FakeCallInfo>("join");
  info->Cancel();
  const auto reply = Start(kRendezvousJoin(ToWire(Request("a", 1))), info);
  EXPECT_EQ(reply->count, 1);
  EXPECT_THAT(reply->outcome->status(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(service_->store().Members().empty());
}

TEST_F(Service, TheEndOfItsSessionIsTheEndOfAMember) {
  ASSERT_THAT(Join(Request("a", 1)), IsOk());
  service_->OnSessionEnd({"somebody", Incarnation{7}}, SessionId{});
  service_->OnSessionEnd({"tester", Incarnation{6}}, SessionId{});
  // An earlier session of the same life, of which the news comes late.
  service_->OnSessionEnd(Tester(), SessionId{5});
  EXPECT_EQ(service_->store().Members().size(), 1u);
  EXPECT_FALSE(service_->WaitForGoodbyes(absl::ZeroDuration()));
  service_->OnSessionEnd(Tester(), SessionId{});
  EXPECT_TRUE(service_->store().Members().empty());
  EXPECT_TRUE(service_->WaitForGoodbyes(absl::ZeroDuration()));
}

TEST_F(Service, OnlyWhoJoinedMayLeave) {
  const absl::StatusOr<Membership> joined = Join(Request("a", 1));
  ASSERT_THAT(joined, IsOk());
  const uint64_t incarnation = joined->self.incarnation.value;
  const auto other = Call(functions_, kRendezvousLeave("b", incarnation));
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(FromWire(*other), StatusIs(absl::StatusCode::kPermissionDenied));
  const auto left = Call(functions_, kRendezvousLeave("a", incarnation));
  ASSERT_THAT(left, IsOk());
  EXPECT_THAT(FromWire(*left), IsOk());
  EXPECT_TRUE(service_->store().Members().empty());
}

TEST_F(Service, WhatCantBeAskedForIsAVerdict) {
  JoinRequest request = Request("a b", 1);
  EXPECT_THAT(Join(request), StatusIs(absl::StatusCode::kInvalidArgument));
  request = Request("a", 1);
  request.address = "0.0.0.0:1";
  EXPECT_THAT(Join(request), StatusIs(absl::StatusCode::kInvalidArgument));
  const auto found = Call(functions_, kRendezvousFind(WireFind{"", -7, absl::ZeroDuration()}));
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(FromWire(*found), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(Service, CloseEndsWhoWaits) {
  const auto reply = Start(kRendezvousJoin(ToWire(Request("a", 1, 2))));
  service_->Close(absl::UnavailableError("server left"));
  EXPECT_EQ(reply->count, 1);
  EXPECT_THAT(Join(Request("b", 2)), StatusIs(absl::StatusCode::kUnavailable, "server left"));
}

// ---- over the simulated network ----

class Cluster : public ::testing::Test {
 protected:
  // The process that serves, from scratch.
  void StartServer() {
    if (processes_.contains("server")) Kill("server");
    Process& server = NewProcess("server");
    server.service = std::make_shared<RendezvousService>(
        server.process->clock(), EmbeddedStoreOptions{.takeover_patience = absl::Seconds(7)});
    Registry functions;
    server.service->Bind(functions);
    NodeOptions options = Options(server);
    options.name = "server";
    options.incarnation = Incarnation{++last_incarnation_};
    options.functions = *FunctionTable::Build(functions.functions());
    options.on_session_end = [service = server.service](const PeerIdentity& peer, SessionId session,
                                                        const absl::Status&) {
      service->OnSessionEnd(peer, session);
    };
    server.node = *Node::Create(std::move(options));
    ASSERT_THAT(server.node->Listen("sim:server"), IsOk());
  }
  RendezvousClient& StartClient(const std::string& host) {
    Process& process = NewProcess(host);
    process.client = *RendezvousClient::Create(
        {.address = "sim:server", .self = host, .node = Options(process)});
    return *process.client;
  }
  void Kill(const std::string& host) {
    network_.Kill(processes_.at(host).process, /*silent=*/false);
    processes_.erase(host);
  }
  template <class T>
  absl::StatusOr<T> Await(const Future<T>& future, absl::Duration timeout = absl::Minutes(1)) {
    loop_.RunUntil([&] { return future.ready(); }, loop_.Now() + timeout);
    if (!future.ready()) return absl::UnknownError("not ready");
    return future.outcome();
  }
  EmbeddedStore& store() { return processes_.at("server").service->store(); }

  ~Cluster() override {
    for (auto& [host, process] : processes_) {
      if (process.node != nullptr) process.node->Close(absl::CancelledError("test over"));
      process.client.reset();
    }
    loop_.RunFor(absl::Seconds(20));
  }

  struct Process {
    SimProcess* process = nullptr;
    std::unique_ptr<BufferPool> pool;
    std::shared_ptr<RendezvousService> service;
    std::unique_ptr<Node> node;
    std::unique_ptr<RendezvousClient> client;
  };
  Process& NewProcess(const std::string& host) {
    Process& process = processes_[host];
    process.process = network_.AddProcess(host);
    process.pool = std::make_unique<BufferPool>(*process.process->clock());
    return process;
  }
  NodeOptions Options(Process& process) {
    NodeOptions options;
    options.limits.join_timeout = absl::ZeroDuration();
    options.limits.resend_timeout = absl::Milliseconds(20);
    options.transport = process.process->transport();
    options.clock = process.process->clock();
    options.rng = process.process->rng();
    options.executor = process.process->executor();
    options.pool = process.pool.get();
    return options;
  }

  SimLoop loop_;
  SimNetwork network_{&loop_, 1};
  uint64_t last_incarnation_ = 0;
  std::map<std::string, Process> processes_;
};

TEST_F(Cluster, AWorldMeetsWhoeverIsFirst) {
  Future<Membership> a = StartClient("a").Join(Request("a", 1, 2));
  loop_.RunFor(absl::Seconds(12));  // longer than one connect_timeout: the server comes late
  EXPECT_FALSE(a.ready());
  StartServer();
  Future<Membership> b = StartClient("b").Join(Request("b", 2, 2));
  ASSERT_THAT(Await(a), IsOk());
  ASSERT_THAT(Await(b), IsOk());
  EXPECT_EQ(a.outcome()->members, b.outcome()->members);
}

TEST_F(Cluster, TheTimeIsOverWithoutAServerAndWithoutAWorld) {
  JoinRequest request = Request("a", 1, 2);
  request.timeout = absl::Seconds(8);
  const absl::Time started = loop_.Now();
  RendezvousClient& client = StartClient("a");
  EXPECT_THAT(Await(client.Join(request)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("a waited 8s for the rendezvous at sim:server"),
                             HasSubstr("--join-timeout"))));
  EXPECT_EQ(loop_.Now(), started + absl::Seconds(8));
  StartServer();
  EXPECT_THAT(Await(client.Join(request)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("1 of 2 are missing"), HasSubstr("a (a.host:7000)"))));
}

TEST_F(Cluster, ASecondOfThatNameIsToldAndDisturbsNobody) {
  StartServer();
  ASSERT_THAT(Await(StartClient("host1").Join(Request("a", 1))), IsOk());
  EXPECT_THAT(Await(StartClient("host2").Join([] {
                JoinRequest twin = Request("a", 2);
                twin.address = "elsewhere:7000";
                return twin;
              }())),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("in use at a.host:7000"), HasSubstr("elsewhere:7000"))));
  EXPECT_EQ(store().Members().size(), 1u);
}

TEST_F(Cluster, TheNameOfADeadProcessIsFreeOnceItsSessionIsBuried) {
  StartServer();
  const auto first = Await(StartClient("host1").Join(Request("a", 1, 1)));
  ASSERT_THAT(first, IsOk());
  Kill("host1");
  JoinRequest again = Request("a", 2, 1);
  again.address = "elsewhere:7000";
  const auto second = Await(StartClient("host2").Join(again));
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->self.rank, first->self.rank);
  EXPECT_GT(second->self.incarnation, first->self.incarnation);
}

TEST_F(Cluster, AMemberGoesOnAtAServerThatWasStartedAgain) {
  StartServer();
  RendezvousClient& client = StartClient("host1");
  const auto joined = Await(client.Join(Request("a", 1)));
  ASSERT_THAT(joined, IsOk());
  Kill("server");
  loop_.RunFor(absl::Seconds(30));
  EXPECT_THAT(Await(client.Resolve("a", absl::ZeroDuration())),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("isn't connected just now")));
  StartServer();
  ASSERT_TRUE(
      loop_.RunUntil([&] { return !store().Members().empty(); }, loop_.Now() + absl::Seconds(30)));
  EXPECT_EQ(store().Members()[0], joined->self);
}

TEST_F(Cluster, AMemberThatWasCutOffTooLongRegistersAgain) {
  StartServer();
  RendezvousClient& client = StartClient("host1");
  const auto joined = Await(client.Join(Request("a", 1)));
  ASSERT_THAT(joined, IsOk());
  network_.Partition("host1", "server", true);
  network_.Partition("server", "host1", true);
  ASSERT_TRUE(
      loop_.RunUntil([&] { return store().Members().empty(); }, loop_.Now() + absl::Minutes(1)));
  network_.Partition("host1", "server", false);
  network_.Partition("server", "host1", false);
  ASSERT_TRUE(
      loop_.RunUntil([&] { return !store().Members().empty(); }, loop_.Now() + absl::Minutes(1)));
  EXPECT_EQ(store().Members()[0], joined->self);
}

TEST_F(Cluster, WhoHasLeftStaysAway) {
  StartServer();
  RendezvousClient& client = StartClient("host1");
  const auto joined = Await(client.Join(Request("a", 1)));
  ASSERT_THAT(joined, IsOk());
  const Future<void> left = client.Leave("a", joined->self.incarnation);
  loop_.RunUntil([&] { return left.ready(); }, loop_.Now() + absl::Seconds(5));
  ASSERT_TRUE(left.ready());
  EXPECT_THAT(left.outcome(), IsOk());
  Kill("server");
  StartServer();
  loop_.RunFor(absl::Seconds(30));
  EXPECT_TRUE(store().Members().empty());
}

TEST_F(Cluster, ConnectionsThatAreCutDuringAJoin) {
  StartServer();
  Future<Membership> a = StartClient("host1").Join(Request("a", 1, 2));
  for (int i = 0; i < 20; ++i) {
    loop_.RunFor(absl::Milliseconds(37));
    network_.Cut("host1", "server");
  }
  EXPECT_FALSE(a.ready());
  ASSERT_THAT(Await(StartClient("host2").Join(Request("b", 2, 2))), IsOk());
  ASSERT_THAT(Await(a), IsOk());
  EXPECT_GT(network_.cut_count(), 0u);
}

}  // namespace
}  // namespace gradwire::rpc::testing
