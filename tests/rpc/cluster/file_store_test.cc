// What is special to the store in a folder: garbage, held locks, leftovers, crashes.
#include "rpc/cluster/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(FileStoreTest, GarbageIsAClearError) {
  for (const std::string& garbage :
       {std::string("hello\n"), std::string(), std::string(100, '\0'),
        std::string("gradwire rendezvous 1\nlast 5\nworld 1\nend 00000000\n")}) {
    FileWorld world;
    ASSERT_THAT(world.fs().MakeDirs("/shared/job"), IsOk());
    ASSERT_THAT(world.fs().WriteAtomically("/shared/job/members", garbage), IsOk());
    const Future<Membership> join = world.Join("a", 1);
    world.Settle(join);
    EXPECT_THAT(join.outcome(), StatusIs(absl::StatusCode::kDataLoss,
                                         AllOf(HasSubstr("/shared/job/members"), HasSubstr("line"),
                                               HasSubstr("remove the folder"))));
  }
}

TEST(FileStoreTest, ALockThatStaysHeldIsTold) {
  FileWorld world;
  ASSERT_THAT(world.fs().MakeDirs("/shared/job"), IsOk());
  const auto lock = world.fs().TryLock("/shared/job/lock");
  ASSERT_THAT(lock, IsOk());
  const Future<Membership> join = world.Join("a", 1);
  const absl::Duration waited = world.Settle(join);
  EXPECT_GE(waited, absl::Seconds(10));
  EXPECT_LE(waited, absl::Seconds(11));
  EXPECT_THAT(join.outcome(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lock")));
}

TEST(FileStoreTest, AFolderLeftBehindServesTheNextJob) {
  FileWorld world;
  for (int job = 0; job < 3; ++job) {
    const std::string a = absl::StrCat("a", job);
    const std::string b = absl::StrCat("b", job);
    const Future<Membership> first = world.Join(a, 2);
    const Future<Membership> second = world.Join(b, 2);
    world.Settle(first);
    world.Settle(second);
    EXPECT_THAT(first.outcome(), IsOk());
    EXPECT_EQ(first.outcome()->members.size(), 2u);
    world.Kill(a);
    world.Kill(b);
  }
  // Nothing grows: the members, the lock, and the alive locks of the last two.
  const auto names = world.fs().List("/shared/job");
  ASSERT_THAT(names, IsOk());
  EXPECT_LE(names->size(), 4u);
}

// The machine stops at each of the operations that a Join makes; afterwards everything works.
TEST(FileStoreTest, SurvivesACrashAtEveryOperation) {
  int operations = 0;
  int stopped_count = 0;
  for (int stop_at = 0; stop_at <= operations; ++stop_at) {
    SCOPED_TRACE(absl::StrCat("crash before operation ", stop_at));
    FileWorld world;
    const Future<Membership> old = world.Join("old", 1);
    world.Settle(old);
    ASSERT_THAT(old.outcome(), IsOk());
    int count = 0;
    world.fs().SetHook([&](FsOperation, const std::string&) {
      return count++ >= stop_at ? absl::UnavailableError("the machine stopped") : absl::OkStatus();
    });
    const Future<Membership> join = world.Join("old", 1);
    world.loop().RunFor(absl::Seconds(1));
    if (!join.ready() || !join.outcome().ok()) ++stopped_count;
    if (stop_at == 0) {
      // The first round only counts: here nothing fails.
      count = 0;
      FileWorld other;
      other.fs().SetHook([&](FsOperation, const std::string&) {
        ++operations;
        return absl::OkStatus();
      });
      const Future<Membership> first = other.Join("old", 1);
      other.Settle(first);
      operations += 8;  // a second life does a little more
    }
    SeededRng torn(static_cast<uint64_t>(stop_at));
    world.Kill("old");
    world.fs().SetHook(nullptr);
    world.fs().CrashTorn(torn);
    const Future<Membership> again = world.Join("new", 1);
    world.Settle(again);
    ASSERT_THAT(again.outcome(), IsOk());
    EXPECT_GT(again.outcome()->self.incarnation, old.outcome()->self.incarnation);
  }
  EXPECT_GT(stopped_count, 10);
  EXPECT_LT(stopped_count, operations);  // the last ones came through
}

}  // namespace
}  // namespace gradwire::rpc::testing
