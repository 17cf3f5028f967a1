// What is special to the store in memory: giving up together, take-over, epochs, limits.
#include "rpc/cluster/embedded_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/rpc/cluster/store_suite.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(EmbeddedStoreTest, TheFirstToGiveUpEndsTheWorld) {
  EmbeddedWorld world;
  const Future<Membership> early = world.Join("a", 3);
  world.loop().RunFor(absl::Seconds(25));
  const Future<Membership> late =
      world.Join("b", 3, [](JoinRequest& r) { r.timeout = absl::Minutes(2); });
  EXPECT_LE(world.Settle(early), absl::Seconds(5));
  world.Settle(late);
  EXPECT_THAT(late.outcome(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                       AllOf(HasSubstr("1 of 3"), HasSubstr("a (a.host:7000)"))));
  EXPECT_TRUE(world.store().Members().empty());
  EXPECT_EQ(world.loop().pending_count(), 0u);
}

TEST(EmbeddedStoreTest, ANewcomerWaitsUntilTheDeathIsKnown) {
  EmbeddedWorld world;
  const Future<Membership> old = world.Join("a", 1);
  ASSERT_TRUE(old.ready());
  const uint64_t old_instance = world.instance("a");
  const auto elsewhere = [](JoinRequest& r) { r.address = "new.host:7000"; };
  const Future<Membership> heir = world.Join("a", 1, elsewhere);
  world.loop().RunFor(absl::Seconds(5));
  EXPECT_FALSE(heir.ready());
  world.store().ReportDead("a", old_instance);
  ASSERT_TRUE(heir.ready());
  ASSERT_THAT(heir.outcome(), IsOk());
  EXPECT_GT(heir.outcome()->self.incarnation, old.outcome()->self.incarnation);
  // Old news about the life before doesn't touch this one.
  world.store().ReportDead("a", old_instance);
  EXPECT_EQ(world.store().Members().size(), 1u);
  // Without news of a death it is told within the patience.
  const Future<Membership> twin =
      world.Join("a", 1, [](JoinRequest& r) { r.address = "third.host:7000"; });
  EXPECT_EQ(world.Settle(twin), absl::Seconds(7));
  EXPECT_THAT(twin.outcome(), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST(EmbeddedStoreTest, ADeathWhileWaitingEndsTheJoin) {
  EmbeddedWorld world;
  const Future<Membership> join = world.Join("a", 2);
  world.Kill("a");
  ASSERT_TRUE(join.ready());
  EXPECT_THAT(join.outcome(), StatusIs(absl::StatusCode::kCancelled));
}

TEST(EmbeddedStoreTest, ALaterStoreGivesHigherIncarnations) {
  EmbeddedWorld world;
  uint64_t highest = 0;
  for (int i = 0; i < 20; ++i) {
    const Future<Membership> join = world.Join("a", 1);
    ASSERT_THAT(join.outcome(), IsOk());
    EXPECT_GT(join.outcome()->self.incarnation.value, highest);
    highest = join.outcome()->self.incarnation.value;
    world.RestartStore();
  }
}

TEST(EmbeddedStoreTest, CloseEndsWhatWaits) {
  EmbeddedWorld world;
  const Future<Membership> join = world.Join("a", 2);
  const Future<Member> seek = world.store().Resolve("b", absl::Hours(1));
  world.store().Close(absl::UnavailableError("going down"));
  EXPECT_THAT(join.outcome(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("going down")));
  EXPECT_THAT(seek.outcome(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(world.Join("c", 1).outcome(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(world.loop().pending_count(), 0u);
}

TEST(EmbeddedStoreTest, LimitsWhoWaits) {
  SimLoop loop;
  EmbeddedStore store(&loop, {.max_waiting_count = 3});
  std::vector<Future<Member>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(store.Resolve("a", absl::Hours(1)));
  EXPECT_THAT(store.Resolve("a", absl::Hours(1)).outcome(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("3 waiting")));
  waiting[0].Cancel();
  const Future<Member> fits = store.Resolve("a", absl::Hours(1));
  EXPECT_FALSE(fits.ready());
  loop.RunFor(absl::Minutes(10));
  EXPECT_TRUE(fits.ready());  // max_timeout
}

}  // namespace
}  // namespace gradwire::rpc::testing
