// How agents find each other, over real sockets: lists, folders, an agent that serves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/agent.h"
#include "rpc/cluster/interface.h"
#include "rpc/tensor/values.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Started = absl::StatusOr<std::unique_ptr<Agent>>;

constexpr Function<std::string()> kWho{"test.who"};
// How long a test waits for something that fails.
constexpr absl::Duration kShort = absl::Milliseconds(300);

// Options of an agent that tells callers its name.
AgentOptions Named(const std::string& name) {
  AgentOptions options;
  options.name = name;
  options.functions.Bind(kWho, [name] { return name; }, {.run = kInline});
  return options;
}

// Starts all at once, each on a thread of its own, as processes would.
std::vector<Started> StartAll(std::vector<AgentOptions> all) {
  std::vector<Started> agents;
  for (size_t i = 0; i < all.size(); ++i) agents.emplace_back(absl::UnknownError("not started"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] { agents[i] = Agent::Start(std::move(all[i])); });
  }
  for (std::thread& thread : threads) thread.join();
  return agents;
}

// Everybody calls everybody, itself included, by rank.
void ExpectAllCallAll(const std::vector<Started>& agents) {
  for (const Started& agent : agents) {
    ASSERT_THAT(agent, IsOk());
    EXPECT_EQ((*agent)->world_size(), static_cast<int>(agents.size()));
    const std::vector<Member> members = (*agent)->Members();
    ASSERT_EQ(members.size(), agents.size());
    for (const Member& member : members) {
      absl::StatusOr<Peer> peer = (*agent)->Connect(member.rank);
      ASSERT_THAT(peer, IsOk());
      EXPECT_EQ(peer->name(), member.name);
      EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds(member.name));
    }
    EXPECT_EQ(members[static_cast<size_t>((*agent)->rank())].name, (*agent)->name());
  }
}

// Addresses where nobody listens now: agents took them and left. On a loopback address of this
// process's own, so that nobody else gets them meanwhile.
std::vector<std::string> FreeAddresses(size_t count) {
  const auto pid = static_cast<unsigned>(getpid());
  const std::string host =
      absl::StrCat("127.", 1 + pid / 62500 % 250, ".", 1 + pid / 250 % 250, ".", 1 + pid % 250);
  std::vector<Started> holders;
  std::vector<std::string> addresses;
  for (size_t i = 0; i < count; ++i) {
    holders.push_back(
        Agent::Start({.name = absl::StrCat("holder", i), .listen = absl::StrCat(host, ":0")}));
    EXPECT_THAT(holders.back(), IsOk());
    addresses.push_back(holders.back().ok() ? (*holders.back())->address() : "");
  }
  return addresses;
}

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

// ---- addresses ----

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
}  // namespace gradwire::rpc
