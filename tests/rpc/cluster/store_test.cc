// One suite over all stores that wait for a world: in memory and in a folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "tests/rpc/cluster/store_suite.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using MakeWorld = std::unique_ptr<StoreWorld> (*)();

class StoreTest : public ::testing::TestWithParam<MakeWorld> {
 protected:
  StoreTest() : world_(GetParam()()) {}
  StoreWorld& world() { return *world_; }
  // A whole world of `names`, which must come to be.
  std::vector<Membership> Gather(const std::vector<std::string>& names) {
    std::vector<Future<Membership>> joins;
    for (const std::string& name : names) {
      joins.push_back(world().Join(name, static_cast<int>(names.size())));
      world().loop().RunFor(absl::Milliseconds(20));
    }
    std::vector<Membership> views;
    for (auto& join : joins) {
      world().Settle(join);
      EXPECT_THAT(join.outcome(), IsOk());
      views.push_back(join.outcome().value_or(Membership()));
    }
    return views;
  }
  absl::StatusOr<Membership> JoinNow(const std::string& name, int world_size,
                                     void (*more)(JoinRequest&) = nullptr) {
    const Future<Membership> join = world().Join(name, world_size, more);
    world().Settle(join);
    return join.outcome();
  }
  absl::Status Leave(const std::string& name, Incarnation incarnation) {
    const Future<void> left = world().Store(name).Leave(name, incarnation);
    world().Settle(left);
    return left.outcome();
  }

  std::unique_ptr<StoreWorld> world_;
};

TEST_P(StoreTest, AWorldWaitsForAllAndDealsRanks) {
  const Future<Membership> first = world().Join("b", 3);
  const Future<Membership> second = world().Join("a", 3);
  world().loop().RunFor(absl::Seconds(5));
  EXPECT_FALSE(first.ready());
  const Future<Membership> third = world().Join("c", 3);
  for (const auto& join : {first, second, third}) {
    EXPECT_LE(world().Settle(join), absl::Milliseconds(500));
    ASSERT_THAT(join.outcome(), IsOk());
    EXPECT_EQ(join.outcome()->world_size, 3);
    EXPECT_EQ(join.outcome()->members, first.outcome()->members);
  }
  const auto& members = first.outcome()->members;
  ASSERT_EQ(members.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members[rank].rank, rank);
  EXPECT_EQ(members[0], first.outcome()->self);
  EXPECT_EQ(members[0].address, "b.host:7000");
  std::set<uint64_t> incarnations;
  for (const Member& member : members) incarnations.insert(member.incarnation.value);
  EXPECT_EQ(incarnations.size(), 3u);
}

TEST_P(StoreTest, RanksByWishAndByExpectedNames) {
  const Future<Membership> one = world().Join("x", 2, [](JoinRequest& r) { r.rank = 1; });
  const Future<Membership> zero = world().Join("y", 2, [](JoinRequest& r) { r.rank = 0; });
  world().Settle(one);
  ASSERT_THAT(one.outcome(), IsOk());
  EXPECT_EQ(one.outcome()->self.rank, 1);
  EXPECT_EQ(one.outcome()->members[0].name, "y");
  ASSERT_THAT(Leave("x", one.outcome()->self.incarnation), IsOk());
  world().Settle(zero);
  ASSERT_THAT(Leave("y", zero.outcome()->self.incarnation), IsOk());

  const auto expect = [](JoinRequest& r) { r.expected = {"p", "q"}; };
  const Future<Membership> q = world().Join("q", 2, expect);
  const Future<Membership> p = world().Join("p", 2, expect);
  world().Settle(q);
  ASSERT_THAT(q.outcome(), IsOk());
  EXPECT_EQ(q.outcome()->self.rank, 1);
  EXPECT_THAT(JoinNow("z", 2, [](JoinRequest& r) { r.rank = 1; }),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("held by q (q.host:7000)")));
}

TEST_P(StoreTest, AnIncompleteWorldSaysWhoIsMissing) {
  const Future<Membership> a =
      world().Join("a", 4, [](JoinRequest& r) { r.expected = {"a", "b", "c", "d"}; });
  const Future<Membership> c =
      world().Join("c", 4, [](JoinRequest& r) { r.expected = {"a", "b", "c", "d"}; });
  const absl::Duration waited = world().Settle(a);
  EXPECT_GE(waited, absl::Seconds(30));
  EXPECT_LE(waited, absl::Seconds(31));
  world().Settle(c);
  EXPECT_THAT(a.outcome(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("2 of 4 are missing: b, d"), HasSubstr("a (a.host:7000)"),
                             HasSubstr("c (c.host:7000)"), HasSubstr("30"))));
  EXPECT_THAT(c.outcome(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  // It left nothing behind: another world may form.
  EXPECT_EQ(Gather({"e", "f"})[0].self.rank, 0);
}

TEST_P(StoreTest, MissingOnesAreNamedByRankOrCounted) {
  const auto shortly = [](JoinRequest& r) { r.timeout = absl::Seconds(2); };
  EXPECT_THAT(JoinNow("a", 3, shortly), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                                 HasSubstr("2 of 3 are missing; there")));
  EXPECT_THAT(JoinNow("a", 3,
                      [](JoinRequest& r) {
                        r.timeout = absl::Seconds(2);
                        r.rank = 1;
                      }),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("2 of 3 are missing: rank 0, rank 2")));
}

TEST_P(StoreTest, ANameInUseIsRefusedWithItsHolder) {
  Gather({"a", "b"});
  const absl::StatusOr<Membership> twin =
      JoinNow("a", 2, [](JoinRequest& r) { r.address = "other.host:7000"; });
  EXPECT_THAT(twin, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("in use at a.host:7000")));
}

TEST_P(StoreTest, ARestartedProcessGetsItsRankAndAHigherIncarnation) {
  const std::vector<Membership> before = Gather({"a", "b", "c"});
  world().Kill("b");
  const auto elsewhere = [](JoinRequest& r) { r.address = "new.host:7000"; };
  const absl::StatusOr<Membership> again = JoinNow("b", 3, elsewhere);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->self.rank, before[1].self.rank);
  EXPECT_GT(again->self.incarnation, before[2].self.incarnation);
  EXPECT_EQ(again->members[1].address, "new.host:7000");
  // The old life has nothing to leave.
  EXPECT_THAT(Leave("b", before[1].self.incarnation),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was replaced")));
}

TEST_P(StoreTest, TheSameAddressOrAWishTakesANameOver) {
  const std::vector<Membership> before = Gather({"a", "b"});
  const absl::StatusOr<Membership> same_place = JoinNow("a", 2);
  ASSERT_THAT(same_place, IsOk());
  EXPECT_GT(same_place->self.incarnation, before[1].self.incarnation);
  const absl::StatusOr<Membership> forced = JoinNow("a", 2, [](JoinRequest& r) {
    r.address = "new.host:7000";
    r.replace = true;
  });
  ASSERT_THAT(forced, IsOk());
  EXPECT_GT(forced->self.incarnation, same_place->self.incarnation);
  EXPECT_EQ(forced->self.rank, before[0].self.rank);
  // A life that was replaced can't go on.
  JoinRequest zombie;
  zombie.name = "a";
  zombie.address = "a.host:7000";
  zombie.instance = 1;
  zombie.world_size = 2;
  zombie.incarnation = before[0].self.incarnation;
  const Future<Membership> refused = world().Send(zombie);
  world().Settle(refused);
  EXPECT_THAT(refused.outcome(), StatusIs(absl::StatusCode::kAborted, HasSubstr("was replaced")));
}

TEST_P(StoreTest, ARepeatedJoinIsTheSameMember) {
  JoinRequest request;
  request.name = "a";
  request.instance = 77;
  request.world_size = 1;
  const Future<Membership> first = world().Send(request);
  world().Settle(first);
  const Future<Membership> second = world().Send(request);
  world().Settle(second);
  ASSERT_THAT(second.outcome(), IsOk());
  EXPECT_EQ(second.outcome()->self, first.outcome()->self);
}

TEST_P(StoreTest, SizesMustAgreeAndAFullWorldTakesNobody) {
  Gather({"a", "b"});
  EXPECT_THAT(JoinNow("c", 3), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("world of 3, and this one has 2")));
  EXPECT_THAT(JoinNow("c", 2), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("is full"), HasSubstr("a (a.host:7000)"))));
  // Without a rank anybody may come.
  const absl::StatusOr<Membership> guest = JoinNow("top", 0);
  ASSERT_THAT(guest, IsOk());
  EXPECT_EQ(guest->self.rank, kNoRank);
  EXPECT_EQ(guest->members.size(), 2u);
  // A dead one's place goes to another name.
  world().Kill("b");
  const absl::StatusOr<Membership> heir = JoinNow("c", 2);
  ASSERT_THAT(heir, IsOk());
  EXPECT_EQ(heir->self.rank, 1);
}

TEST_P(StoreTest, WhenAllHaveGoneAnotherSizeMayCome) {
  const std::vector<Membership> before = Gather({"a", "b"});
  ASSERT_THAT(Leave("a", before[0].self.incarnation), IsOk());
  ASSERT_THAT(Leave("a", before[0].self.incarnation), IsOk());  // once more
  world().Kill("b");
  const std::vector<Membership> after = Gather({"a", "b", "c"});
  EXPECT_GT(after[0].self.incarnation, before[1].self.incarnation);
}

TEST_P(StoreTest, LookingForSomebodyWaits) {
  const Future<Member> found = world().Store("s").Resolve("late", absl::Seconds(20));
  const Future<Member> by_rank = world().Store("s").ResolveRank(0, absl::Seconds(20));
  const Future<Member> nobody = world().Store("s").Resolve("nobody", absl::Seconds(5));
  world().loop().RunFor(absl::Seconds(4));
  EXPECT_FALSE(found.ready());
  const Future<Membership> join = world().Join("late", 1);
  world().Settle(found);
  ASSERT_THAT(found.outcome(), IsOk());
  EXPECT_EQ(found.outcome()->address, "late.host:7000");
  world().Settle(by_rank);
  EXPECT_EQ(by_rank.outcome()->name, "late");
  const absl::Duration waited = world().Settle(nobody);
  EXPECT_LE(waited, absl::Seconds(2));
  EXPECT_THAT(nobody.outcome(), StatusIs(absl::StatusCode::kNotFound,
                                         AllOf(HasSubstr("nobody"), HasSubstr("late (late.host"))));
  // The dead are not found.
  world().Kill("late");
  const Future<Member> dead = world().Store("s").Resolve("late", absl::ZeroDuration());
  world().Settle(dead);
  EXPECT_THAT(dead.outcome(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(StoreTest, ACancelledJoinIsWithdrawn) {
  const Future<Membership> join = world().Join("a", 2);
  world().loop().RunFor(absl::Milliseconds(300));
  join.Cancel();
  world().loop().RunFor(absl::Milliseconds(300));
  EXPECT_THAT(join.outcome(), StatusIs(absl::StatusCode::kCancelled));
  const Future<Member> gone = world().Store("s").Resolve("a", absl::ZeroDuration());
  world().Settle(gone);
  EXPECT_THAT(gone.outcome(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(StoreTest, ALifeGoesOnAtARestartedStore) {
  const std::vector<Membership> before = Gather({"a", "b"});
  world().RestartStore();
  JoinRequest again;
  again.name = "a";
  again.address = "a.host:7000";
  again.instance = world().instance("a");
  again.world_size = 2;
  again.rank = before[0].self.rank;
  again.incarnation = before[0].self.incarnation;
  const Future<Membership> join = world().Send(again);
  EXPECT_LE(world().Settle(join), absl::Seconds(1));  // doesn't wait for b
  ASSERT_THAT(join.outcome(), IsOk());
  EXPECT_EQ(join.outcome()->self, before[0].self);
  world().Kill("b");
  const absl::StatusOr<Membership> newcomer = JoinNow("b", 2);
  ASSERT_THAT(newcomer, IsOk());
  EXPECT_GT(newcomer->self.incarnation, before[1].self.incarnation);
  EXPECT_EQ(newcomer->self.rank, 1);
}

TEST_P(StoreTest, RefusesRequestsThatCantBe) {
  const auto bad = [&](void (*more)(JoinRequest&), const std::string& why) {
    EXPECT_THAT(JoinNow("a", 2, more),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  bad([](JoinRequest& r) { r.name = "a b"; }, "no agent name");
  bad([](JoinRequest& r) { r.name = std::string(129, 'a'); }, "no agent name");
  bad([](JoinRequest& r) { r.address = "nowhere"; }, "no port");
  bad([](JoinRequest& r) { r.address = "0.0.0.0:5"; }, "--advertise");
  bad([](JoinRequest& r) { r.instance = 0; }, "instance");
  bad([](JoinRequest& r) { r.world_size = -1; }, "world size -1");
  bad([](JoinRequest& r) { r.world_size = kMaxMembers + 1; }, "world size 4097");
  bad([](JoinRequest& r) { r.rank = 2; }, "rank 2 is not in a world of 2");
  bad([](JoinRequest& r) { r.rank = -2; }, "rank -2");
  bad([](JoinRequest& r) { r.expected = {"a"}; }, "1 names are expected");
  bad([](JoinRequest& r) { r.expected = {"b", "c"}; }, "not among the expected");
  bad([](JoinRequest& r) { r.expected = {"a", "a"}; }, "expected twice");
  bad([](JoinRequest& r) { r.incarnation = Incarnation{UINT64_MAX}; }, "no room");
}

// Random joins, deaths, leaves and pauses. What must hold whatever happens: everything that waits
// ends in time; a life's incarnation is above all that were given before it; who is told a world
// has names, ranks and incarnations that are unique.
TEST_P(StoreTest, HoldsWhatItPromisesUnderRandomUse) {
  int joined_count = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    world_ = GetParam()();
    SeededRng rng(seed);
    const int size = 1 + static_cast<int>(rng.Below(4));
    uint64_t highest = 0;  // of those that had ended their Join before the last one began
    struct Started {
      Future<Membership> join;
      uint64_t above = 0;
      absl::Time at;
    };
    std::vector<Started> waiting;
    std::map<std::string, Incarnation> lives;
    const auto look = [&] {
      std::erase_if(waiting, [&](const Started& started) {
        if (!started.join.ready()) {
          EXPECT_LE(world().loop().Now(), started.at + absl::Seconds(31));
          return false;
        }
        const auto& outcome = started.join.outcome();
        if (!outcome.ok()) return true;
        ++joined_count;
        EXPECT_GT(outcome->self.incarnation.value, started.above);
        highest = std::max(highest, outcome->self.incarnation.value);
        lives[outcome->self.name] = outcome->self.incarnation;
        EXPECT_EQ(outcome->members.size(), static_cast<size_t>(size));
        std::set<std::string> names;
        std::set<uint64_t> incarnations;
        for (size_t i = 0; i < outcome->members.size(); ++i) {
          EXPECT_EQ(outcome->members[i].rank, static_cast<int>(i));
          names.insert(outcome->members[i].name);
          incarnations.insert(outcome->members[i].incarnation.value);
        }
        EXPECT_EQ(names.size(), outcome->members.size());
        EXPECT_EQ(incarnations.size(), outcome->members.size());
        return true;
      });
    };
    for (int step = 0; step < 60; ++step) {
      const std::string name = absl::StrCat("n", rng.Below(static_cast<uint64_t>(size) + 1));
      switch (rng.Below(5)) {
        case 0:
        case 1:
          waiting.push_back({world().Join(name, size), highest, world().loop().Now()});
          break;
        case 2:
          if (lives.contains(name)) world().Kill(name);
          break;
        case 3:
          if (lives.contains(name)) (void)world().Store(name).Leave(name, lives[name]);
          break;
        default:
          world().loop().RunFor(absl::Milliseconds(rng.Below(8000)));
      }
      world().loop().RunFor(absl::Milliseconds(rng.Below(50)));
      look();
    }
    world().loop().RunFor(absl::Seconds(45));
    look();
    EXPECT_TRUE(waiting.empty());
  }
  EXPECT_GT(joined_count, 300);
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreTest,
    ::testing::Values(
        +[]() -> std::unique_ptr<StoreWorld> { return std::make_unique<EmbeddedWorld>(); },
        +[]() -> std::unique_ptr<StoreWorld> { return std::make_unique<FileWorld>(); }),
    [](const auto& info) { return info.index == 0 ? "Embedded" : "File"; });

}  // namespace
}  // namespace gradwire::rpc::testing
