// What a folder and an agent that serves have in common: worlds that meet, or say why not; members
// that leave, move and are killed. Over real sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/rendezvous_testutil.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

// ---- what ends and comes again ----

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

}  // namespace
}  // namespace gradwire::rpc::testing
