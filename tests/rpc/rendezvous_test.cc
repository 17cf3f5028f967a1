// How agents find each other by a list and at an agent that serves, and by which address; over real
// sockets.
#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "rpc/cluster/interface.h"
#include "tests/rpc/rendezvous_testutil.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- a list ----

std::vector<AgentOptions> OnAList(const std::vector<std::string>& names,
                                  const std::vector<std::string>& addresses) {
  std::vector<std::string> entries;
  for (size_t i = 0; i < names.size(); ++i) {
    entries.push_back(absl::StrCat(names[i], "=", addresses[i]));
  }
  std::vector<AgentOptions> all;
  for (size_t i = 0; i < names.size(); ++i) {
    all.push_back(Named(names[i]));
    all.back().listen = addresses[i];
    all.back().rendezvous = absl::StrCat("static:", absl::StrJoin(entries, ","));
    all.back().world_size = static_cast<int>(names.size());
  }
  return all;
}

TEST(Rendezvous, ThreeFindEachOtherByAList) {
  std::vector<Started> agents = StartAll(OnAList({"ps0", "worker0", "worker1"}, FreeAddresses(3)));
  ExpectAllCallAll(agents);
  EXPECT_EQ((*agents[2])->rank(), 2);
}

TEST(Rendezvous, AListWaitsForNobodyWithoutAWorldSize) {
  const std::vector<std::string> free = FreeAddresses(1);
  AgentOptions options = Named("client");
  options.rendezvous = absl::StrCat("static:server=", free[0]);
  options.join_timeout = kShort;
  Started client = Agent::Start(options);
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ((*client)->rank(), -1);
  EXPECT_EQ((*client)->world_size(), 1);
}

TEST(Rendezvous, AListNamesWhoIsMissing) {
  const std::vector<std::string> free = FreeAddresses(3);
  std::vector<AgentOptions> all = OnAList({"a", "b", "c"}, free);
  all.pop_back();
  for (AgentOptions& options : all) options.join_timeout = kShort;
  for (const Started& agent : StartAll(std::move(all))) {
    EXPECT_THAT(
        agent, StatusIs(absl::StatusCode::kDeadlineExceeded,
                        AllOf(HasSubstr(" of 3 can't be reached"), HasSubstr("c (" + free[2] + ")"),
                              HasSubstr("--join-timeout"))));
  }
}

TEST(Rendezvous, AListAndWhatContradictsIt) {
  const std::vector<std::string> free = FreeAddresses(2);
  std::vector<AgentOptions> all = OnAList({"a", "b"}, free);
  AgentOptions options = all[0];
  options.world_size = 3;
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("world of 3"), HasSubstr("2 members"))));
  options = all[0];
  options.rank = 1;
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rank 1")));
  options = all[0];
  options.name = "stranger";
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("isn't in the list")));
  options = all[0];
  options.peers = "b=" + free[1];
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("both peers and rendezvous")));
  options.peers = "";
  options.rendezvous = "etcd://host:1";
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("file:///")));
  // Somebody else listens at b's address.
  Started other = Agent::Start({.name = "other", .listen = free[1]});
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(Agent::Start(all[0]),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("this is agent other, not b")));
}

// ---- an agent that serves ----

TEST(Rendezvous, TheServerMayComeLast) {
  Server meeting;
  std::vector<AgentOptions> all = {Named("worker0"), Named("worker1"), Named("ps0")};
  for (AgentOptions& options : all) {
    options.world_size = 3;
    meeting.Meet(options);
  }
  meeting.Serve(all[2]);
  std::vector<AgentOptions> last = {all[2]};
  all.pop_back();
  std::vector<Started> workers;
  std::thread early([&] { workers = StartAll(std::move(all)); });
  // The workers have tried at least once, most likely; whatever came first, all must meet.
  for (int i = 0; i < 1000; ++i) sched_yield();
  Started server = Agent::Start(last[0]);
  early.join();
  std::vector<Started> agents = std::move(workers);
  agents.push_back(std::move(server));
  ExpectAllCallAll(agents);
}

TEST(Rendezvous, AServerThatNeverComes) {
  Server meeting;
  AgentOptions options = Named("worker0");
  meeting.Meet(options);
  options.join_timeout = kShort;
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("worker0 waited"), HasSubstr("rendezvous at 127."),
                             HasSubstr("start the agent that listens there"))));
}

TEST(Rendezvous, AnAgentThatServesNone) {
  Started other = Agent::Start({.name = "other"});
  ASSERT_THAT(other, IsOk());
  AgentOptions options = Named("worker0");
  options.rendezvous = absl::StrCat("tcp://", (*other)->address());
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("serves no rendezvous")));
}

TEST(Rendezvous, AServerWithoutAWorldOfItsOwn) {
  Started launcher = Agent::Start({.name = "launcher", .serve_rendezvous = true});
  ASSERT_THAT(launcher, IsOk());
  std::vector<AgentOptions> all = {Named("a"), Named("b")};
  for (AgentOptions& options : all) {
    options.world_size = 2;
    options.rendezvous = absl::StrCat("tcp://", (*launcher)->address());
  }
  AgentOptions alone = all[0];
  alone.join_timeout = kShort;
  EXPECT_THAT(Agent::Start(alone),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("a waited"), HasSubstr("1 of 2 are missing"),
                             HasSubstr("there are: "), HasSubstr("launcher ("))));
  ExpectAllCallAll(StartAll(std::move(all)));
  EXPECT_THAT(Agent::Start({.name = "x", .serve_rendezvous = true, .peers = "a=127.0.0.1:1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nobody serves")));
  EXPECT_THAT(Agent::Start({.name = "x", .world_size = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs a rendezvous")));
}

TEST(Rendezvous, AServerThatWasStartedAgainLearnsWhoIsThere) {
  Server meeting;
  std::vector<AgentOptions> all = {Named("server"), Named("client")};
  for (AgentOptions& options : all) meeting.Meet(options);
  meeting.Serve(all[0]);
  Started server = Agent::Start(all[0]);
  ASSERT_THAT(server, IsOk());
  Started client = Agent::Start(all[1]);
  ASSERT_THAT(client, IsOk());
  const Incarnation first = (*server)->incarnation();
  server->reset();
  server = Agent::Start(all[0]);
  ASSERT_THAT(server, IsOk());
  EXPECT_GT((*server)->incarnation(), first);
  // The client registers by itself, with the incarnation that it has.
  absl::StatusOr<Peer> peer = (*server)->Connect("client");
  ASSERT_THAT(peer, IsOk());
  EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds("client"));
}

TEST(Rendezvous, AWorldGoesOnWithAServerThatWasStartedAgain) {
  Server meeting;
  std::vector<AgentOptions> all = {Named("server"), Named("client")};
  for (AgentOptions& options : all) {
    options.world_size = 2;
    meeting.Meet(options);
  }
  meeting.Serve(all[0]);
  const AgentOptions first = all[0];
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  const int rank = (*agents[0])->rank();
  agents[0]->reset();
  agents[0] = Agent::Start(first);
  ExpectAllCallAll(agents);
  EXPECT_EQ((*agents[0])->rank(), rank);
}

// ---- addresses ----

TEST(Rendezvous, ByAHostsName) {
  const std::string free = FreeAddress("127.0.0.1");
  const std::string port = free.substr(free.rfind(':'));
  // One listens by number, the others look for the name.
  Server named("localhost" + port);
  std::vector<AgentOptions> all = {Named("a"), Named("b"), Named("c")};
  for (AgentOptions& options : all) {
    options.world_size = 3;
    options.listen = "localhost:0";
    named.Meet(options);
  }
  all[0].listen = port;
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  EXPECT_THAT((*agents[1])->address(), HasSubstr("localhost:"));
}

TEST(Rendezvous, ByIpv6) {
  bool available = false;
  for (const InterfaceAddress& address : SystemInterfaces()) {
    available = available || address.host == "::1";
  }
  if (!available) GTEST_SKIP() << "this machine has no [::1]";
  Server meeting(FreeAddress("[::1]"));
  std::vector<AgentOptions> all = {Named("a"), Named("b"), Named("c")};
  for (AgentOptions& options : all) {
    options.world_size = 3;
    options.listen = "[::1]:0";
    meeting.Meet(options);
  }
  meeting.Serve(all[0]);
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  EXPECT_THAT((*agents[1])->address(), HasSubstr("[::1]:"));
}

TEST(Rendezvous, ListeningByInterfaceAndBeingAdvertised) {
  std::string loopback;
  for (const InterfaceAddress& address : SystemInterfaces()) {
    if (address.loopback && address.host == "127.0.0.1") loopback = address.interface;
  }
  if (loopback.empty()) GTEST_SKIP() << "no interface has 127.0.0.1";
  AgentOptions options = Named("server");
  options.interface = loopback;
  options.advertise = "localhost";
  Started server = Agent::Start(options);
  ASSERT_THAT(server, IsOk());
  EXPECT_THAT((*server)->address(), HasSubstr("localhost:"));
  EXPECT_THAT((*server)->address(), Not(HasSubstr(":0")));
  Started client = Agent::Start({.name = "client", .peers = "server=" + (*server)->address()});
  ASSERT_THAT(client, IsOk());
  EXPECT_THAT((*client)->At("server").Call(kWho()), IsOkAndHolds("server"));

  options.interface = "none0";
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("none0"), HasSubstr(loopback + " (127.0.0.1)"))));
  options.interface = loopback;
  options.listen = "127.0.0.1:0";
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("both choose an address")));
  options.listen = "";
  EXPECT_THAT(Agent::Start(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("listen=\"\"")));
}

}  // namespace
}  // namespace gradwire::rpc::testing
