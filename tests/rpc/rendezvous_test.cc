// How agents find each other, over real sockets: lists, folders, an agent that serves.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/agent.h"
#include "rpc/base/fs.h"
#include "rpc/cluster/interface.h"
#include "rpc/tensor/values.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
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

// One on `host`.
std::string FreeAddress(const std::string& host) {
  const Started holder = Agent::Start({.name = "holder", .listen = host + ":0"});
  EXPECT_THAT(holder, IsOk());
  return holder.ok() ? (*holder)->address() : "";
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

// ---- a folder, and an agent that serves ----

// Three worlds of the same behaviour: where they meet is all that differs.
class Meeting {
 public:
  virtual ~Meeting() = default;
  // What all say, but for who serves.
  virtual void Meet(AgentOptions& options) = 0;
  // What one of them adds so that the others find it.
  virtual void Serve(AgentOptions&) {}
};

class Folder final : public Meeting {
 public:
  Folder() : path_(absl::StrCat(::testing::TempDir(), "/gw-meeting-", getpid(), "-", ++count_)) {}
  ~Folder() override {
    FileSystem& fs = FileSystem::Real();
    const absl::StatusOr<std::vector<std::string>> names = fs.List(path_);
    if (!names.ok()) return;
    for (const std::string& name : *names) (void)fs.Remove(JoinPath(path_, name));
    ::rmdir(path_.c_str());
  }
  void Meet(AgentOptions& options) override { options.rendezvous = absl::StrCat("file://", path_); }

 private:
  static inline int count_ = 0;
  const std::string path_;
};

class Server final : public Meeting {
 public:
  explicit Server(std::string address = FreeAddresses(1)[0]) : address_(std::move(address)) {}
  void Meet(AgentOptions& options) override {
    options.rendezvous = absl::StrCat("tcp://", address_);
  }
  void Serve(AgentOptions& options) override { options.listen = address_; }

 private:
  const std::string address_;
};

class RendezvousMeeting : public ::testing::TestWithParam<bool> {
 protected:
  RendezvousMeeting() {
    if (GetParam()) {
      meeting_ = std::make_unique<Server>();
    } else {
      meeting_ = std::make_unique<Folder>();
    }
  }
  // The first of them serves, if anybody must.
  std::vector<AgentOptions> World(const std::vector<std::string>& names, int world_size) {
    std::vector<AgentOptions> all;
    for (const std::string& name : names) {
      all.push_back(Named(name));
      all.back().world_size = world_size;
      meeting_->Meet(all.back());
    }
    meeting_->Serve(all[0]);
    return all;
  }
  std::unique_ptr<Meeting> meeting_;
};

INSTANTIATE_TEST_SUITE_P(Rendezvous, RendezvousMeeting, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Tcp" : "File"; });

TEST_P(RendezvousMeeting, ThreeFindEachOther) {
  std::vector<Started> agents = StartAll(World({"ps0", "worker0", "worker1"}, 3));
  ExpectAllCallAll(agents);
  for (const Started& agent : agents) {
    for (const Member& member : (*agent)->Members()) EXPECT_NE(member.incarnation.value, 0u);
    for (const PeerState& peer : (*agent)->Peers()) {
      EXPECT_THAT(peer.name, Not(HasSubstr("gradwire")));
    }
  }
}

TEST_P(RendezvousMeeting, RanksAsAskedFor) {
  std::vector<AgentOptions> all = World({"a", "b", "c"}, 3);
  for (int i = 0; i < 3; ++i) all[static_cast<size_t>(i)].rank = 2 - i;
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  EXPECT_EQ((*agents[0])->rank(), 2);
  EXPECT_EQ((*agents[2])->rank(), 0);
}

TEST_P(RendezvousMeeting, MissingOnesAreCounted) {
  std::vector<AgentOptions> all = World({"a", "b"}, 3);
  for (AgentOptions& options : all) options.join_timeout = kShort;
  // On a slow machine the second may come when the first has given up.
  for (const Started& agent : StartAll(std::move(all))) {
    EXPECT_THAT(agent, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                AllOf(HasSubstr("waited"), HasSubstr("--join-timeout"))));
  }
}

TEST_P(RendezvousMeeting, MissingRanksAreNamed) {
  std::vector<AgentOptions> all = World({"a"}, 3);
  all[0].rank = 1;
  all[0].join_timeout = kShort;
  EXPECT_THAT(Agent::Start(all[0]),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("2 of 3 are missing: rank 0, rank 2"),
                             HasSubstr("there are: a ("), HasSubstr("--join-timeout"))));
}

TEST_P(RendezvousMeeting, ANameUsedTwice) {
  std::vector<AgentOptions> all = World({"a", "b", "b"}, 2);
  AgentOptions third = all.back();
  all.pop_back();
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  third.join_timeout = kShort;
  const Started second = Agent::Start(third);
  EXPECT_THAT(second,
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("the name b is in use at " + (*agents[1])->address()),
                             HasSubstr("this one, at 127.0.0.1:"))));
  // The first of that name wasn't disturbed.
  EXPECT_THAT((*agents[0])->At("b").Call(kWho()), IsOkAndHolds("b"));
}

TEST_P(RendezvousMeeting, ARankUsedTwice) {
  std::vector<AgentOptions> all = World({"a", "b", "c"}, 2);
  all[0].rank = 0;
  all[1].rank = 1;
  all[2].rank = 1;
  AgentOptions third = all.back();
  all.pop_back();
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  third.join_timeout = kShort;
  EXPECT_THAT(Agent::Start(third),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("rank 1, which c (127.0.0.1:"),
                             HasSubstr("is held by b (" + (*agents[1])->address() + ")"))));
}

TEST_P(RendezvousMeeting, AnotherWorldSizeIsRefused) {
  std::vector<AgentOptions> all = World({"a", "b", "c"}, 2);
  AgentOptions third = all.back();
  all.pop_back();
  std::vector<Started> agents = StartAll(std::move(all));
  ExpectAllCallAll(agents);
  third.world_size = 3;
  EXPECT_THAT(Agent::Start(third), StatusIs(absl::StatusCode::kFailedPrecondition,
                                            AllOf(HasSubstr("c is for a world of 3"),
                                                  HasSubstr("give all the same --world-size"))));
}

TEST_P(RendezvousMeeting, AnOpenWorldWaitsForNobody) {
  std::vector<AgentOptions> all = World({"server", "client"}, 0);
  Started server = Agent::Start(all[0]);
  ASSERT_THAT(server, IsOk());
  Started client = Agent::Start(all[1]);
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ((*client)->rank(), -1);
  EXPECT_EQ((*client)->world_size(), 0);
  absl::StatusOr<Peer> peer = (*client)->Connect("server");
  ASSERT_THAT(peer, IsOk());
  EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds("server"));
}

TEST_P(RendezvousMeeting, SomebodyUnknownIsWaitedForAndThenNamed) {
  std::vector<AgentOptions> all = World({"server", "client"}, 0);
  all[0].limits.connect_timeout = kShort;
  Started server = Agent::Start(all[0]);
  ASSERT_THAT(server, IsOk());
  EXPECT_THAT((*server)->Connect("client"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("client is not there"), HasSubstr("server ("))));
  EXPECT_THAT((*server)->Connect(0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("rank 0 is not there")));
}

TEST_P(RendezvousMeeting, WhoLeavesMayComeAgain) {
  std::vector<AgentOptions> all = World({"a", "b"}, 0);
  Started a = Agent::Start(all[0]);
  ASSERT_THAT(a, IsOk());
  Incarnation last;
  for (int i = 0; i < 3; ++i) {
    Started b = Agent::Start(all[1]);
    ASSERT_THAT(b, IsOk());
    EXPECT_GT((*b)->incarnation(), last);
    last = (*b)->incarnation();
    absl::StatusOr<Peer> peer = (*a)->Connect("b");
    ASSERT_THAT(peer, IsOk());
    EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds("b"));
    EXPECT_THAT((*b)->Leave(absl::Seconds(5)), IsOk());
  }
}

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

// ---- what ends and comes again ----

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

TEST_P(RendezvousMeeting, SomebodyElseAtTheOldAddress) {
  std::vector<AgentOptions> all = World({"a", "b", "x"}, 0);
  Started a = Agent::Start(all[0]);
  ASSERT_THAT(a, IsOk());
  Started b = Agent::Start(all[1]);
  ASSERT_THAT(b, IsOk());
  absl::StatusOr<Peer> peer = (*a)->Connect("b");
  ASSERT_THAT(peer, IsOk());
  const std::string old = (*b)->address();
  b->reset();
  all[2].listen = old;
  Started x = Agent::Start(all[2]);
  ASSERT_THAT(x, IsOk());
  b = Agent::Start(all[1]);
  ASSERT_THAT(b, IsOk());
  EXPECT_TRUE(WaitUntil([&] { return peer->Call(kWho()).ok(); }));
  EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds("b"));
}

// This test program once more, as one that runs a member and can be killed.
class Process {
 public:
  explicit Process(const std::string& rendezvous) {
    std::string variable = absl::StrCat("GW_TEST_RENDEZVOUS=", rendezvous);
    std::vector<char*> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    environment.push_back(variable.data());
    environment.push_back(nullptr);
    char* const argv[] = {const_cast<char*>("/proc/self/exe"),
                          const_cast<char*>("--gtest_filter=Member.DISABLED_Runs"),
                          const_cast<char*>("--gtest_also_run_disabled_tests"), nullptr};
    int in[2];
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv, environment.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    stdin_ = in[1];
  }
  ~Process() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(stdin_);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int stdin_ = -1;  // ends with this process, and the child with it
};

// What such a process does.
TEST(Member, DISABLED_Runs) {
  const char* const rendezvous = ::getenv("GW_TEST_RENDEZVOUS");
  ASSERT_NE(rendezvous, nullptr);
  AgentOptions options = Named("b");
  options.rendezvous = rendezvous;
  options.world_size = 2;
  Started agent = Agent::Start(options);
  ASSERT_THAT(agent, IsOk());
  char byte;
  while (::read(0, &byte, 1) > 0) {
  }
}

TEST_P(RendezvousMeeting, AProcessThatWasKilledComesAgainUnderItsName) {
  std::vector<AgentOptions> all = World({"a"}, 2);
  all[0].limits.resume_window = absl::Milliseconds(200);
  auto process = std::make_unique<Process>(all[0].rendezvous);
  Started a = Agent::Start(all[0]);
  ASSERT_THAT(a, IsOk());
  absl::StatusOr<Peer> b = (*a)->Connect(1);
  ASSERT_THAT(b, IsOk());
  EXPECT_THAT(b->Call(kWho()), IsOkAndHolds("b"));
  const Member before = (*a)->Members()[1];

  process->Kill();
  process = std::make_unique<Process>(all[0].rendezvous);
  // The same Peer goes on, wherever b is now.
  EXPECT_TRUE(WaitUntil([&] { return b->Call(kWho(), {.timeout = absl::Seconds(5)}).ok(); },
                        absl::Seconds(60)));
  const Member after = (*a)->Members()[1];
  EXPECT_EQ(after.name, "b");
  EXPECT_NE(after.address, before.address);
  EXPECT_GT(after.incarnation, before.incarnation);
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
}  // namespace gradwire::rpc
