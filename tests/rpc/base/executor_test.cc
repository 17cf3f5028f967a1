#include "rpc/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "rpc/base/future.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::HasSubstr;

TEST(ThreadPool, RunsWhatIsPostedAndEverythingBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool({.name = "t", .slot_count = 2});
    for (int i = 0; i < 1000; ++i) EXPECT_THAT(pool.Post([&] { ++ran; }), IsOk());
  }
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadPool, RunsNoMoreAtOnceThanItHasSlots) {
  std::atomic<int> now{0}, most{0}, done{0};
  ThreadPool pool({.name = "t", .slot_count = 3});
  for (int i = 0; i < 300; ++i) {
    ASSERT_THAT(pool.Post([&] {
      const int n = ++now;
      int seen = most;
      while (n > seen && !most.compare_exchange_weak(seen, n)) {
      }
      --now;
      ++done;
    }),
                IsOk());
  }
  ASSERT_TRUE(WaitUntil([&] { return done == 300; }));
  EXPECT_LE(most, 3);
}

TEST(ThreadPool, ABlockedTaskGivesItsSlotAway) {
  // Each task waits for the next one: with one slot and no spare threads this could never end.
  constexpr int kDepth = 50;
  ThreadPool pool({.name = "t", .slot_count = 1, .max_spare_count = kDepth});
  std::vector<Promise<int>> promises(kDepth + 1);
  std::vector<Future<int>> futures;
  for (auto& promise : promises) futures.push_back(promise.future());
  for (int i = 0; i < kDepth; ++i) {
    ASSERT_THAT(pool.Post([&, i] {
      const absl::StatusOr<int> next = futures[i + 1].Wait(absl::Seconds(20));
      promises[i].Set(next.ok() ? absl::StatusOr<int>(*next + 1) : next);
    }),
                IsOk());
  }
  ASSERT_THAT(pool.Post([&] { promises[kDepth].Set(0); }), IsOk());
  EXPECT_THAT(futures[0].Wait(absl::Seconds(20)), testing::IsOkAndHolds(kDepth));
}

TEST(ThreadPool, RefusesToBlockBeyondItsSpareThreadsNamingTheLimit) {
  Promise<int> never;
  Promise<absl::Status> first, second;
  Future<absl::Status> results[] = {first.future(), second.future()};
  // Last, so that its threads are joined before what its tasks use goes.
  ThreadPool pool({.name = "t", .slot_count = 2, .max_spare_count = 1});
  // Each may find the one place taken by a wait of the other; the first one tries until it waits.
  ASSERT_THAT(pool.Post([&] {
    absl::Status status;
    while (absl::IsResourceExhausted(status = never.future().Wait(absl::Seconds(20)).status())) {
    }
    first.Set(status);
  }),
              IsOk());
  // The second one can only be refused once the first one waits.
  ASSERT_THAT(pool.Post([&] {
    absl::Status status;
    while (
        !absl::IsResourceExhausted(status = never.future().Wait(absl::Milliseconds(1)).status())) {
    }
    second.Set(status);
  }),
              IsOk());
  const auto outcome = results[1].Wait(absl::Seconds(20));
  ASSERT_THAT(outcome, IsOk());
  EXPECT_THAT(*outcome,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_spare_count")));
  never.Set(1);
  const auto woken = results[0].Wait(absl::Seconds(20));
  ASSERT_THAT(woken, IsOk());
  EXPECT_THAT(*woken, IsOk());
}

TEST(ThreadPool, RefusesWhenFullAndWhenClosed) {
  Promise<int> go;
  Future<int> gone = go.future();
  std::atomic<bool> started{false};
  // Last, so that its threads are joined before what its tasks use goes.
  ThreadPool pool({.name = "tiny", .slot_count = 1, .max_queued_count = 1});
  ASSERT_THAT(pool.Post([&] {
    started = true;
    while (!gone.ready()) {
    }
  }),
              IsOk());
  ASSERT_TRUE(WaitUntil([&] { return started.load(); }));
  ASSERT_THAT(pool.Post([] {}), IsOk());
  EXPECT_THAT(pool.Post([] {}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("tiny")));
  go.Set(1);
  pool.Close();
  EXPECT_THAT(pool.Post([] {}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ThreadPoolDeathTest, AnEscapedExceptionEndsTheProcess) {
  EXPECT_DEATH(
      {
        ThreadPool pool({.name = "t", .slot_count = 1});
        (void)pool.Post([] { throw std::runtime_error("boom"); });
      },
      "");
}

TEST(BlockingRegion, FailsOnPollingThreads) {
  ScopedThreadRole role(ThreadRole::kPolling);
  BlockingRegion region;
  EXPECT_THAT(region.status(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(Strand, RunsOneAtATimeInOrder) {
  ThreadPool pool({.name = "t", .slot_count = 4});
  Strand strand(&pool);
  std::vector<int> order;  // unguarded on purpose: the strand is the guard
  Promise<int> done;
  Future<int> finished = done.future();
  constexpr int kTasks = 1000;
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_THAT(strand.Post([&, i] {
      order.push_back(i);
      if (i == kTasks - 1) done.Set(0);
    }),
                IsOk());
  }
  ASSERT_THAT(finished.Wait(absl::Seconds(20)), IsOk());
  ASSERT_EQ(order.size(), static_cast<size_t>(kTasks));
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(order[i], i);
}

TEST(Gate, ClosesToNewWorkAndWaitsForTheOld) {
  Gate gate;
  Gate::Pass pass = gate.TryEnter();
  ASSERT_TRUE(static_cast<bool>(pass));
  gate.Close();
  EXPECT_FALSE(static_cast<bool>(gate.TryEnter()));
  EXPECT_FALSE(gate.Wait(absl::Milliseconds(1)));
  Gate::Pass moved = std::move(pass);
  EXPECT_FALSE(gate.Wait(absl::Milliseconds(1)));
  moved.Release();
  EXPECT_TRUE(gate.Wait(absl::Seconds(1)));
}

}  // namespace
}  // namespace gradwire
