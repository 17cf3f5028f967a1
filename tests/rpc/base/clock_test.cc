#include "rpc/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>

#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"
#include "tests/support/wait.h"

namespace gradwire {
namespace {

TEST(RealClock, IsMonotonicAndNearTheWallClock) {
  Clock& clock = Clock::Real();
  const absl::Time a = clock.Now();
  const absl::Time b = clock.Now();
  EXPECT_LE(a, b);
  EXPECT_LT(absl::AbsDuration(b - absl::Now()), absl::Seconds(5));
}

TEST(RealClock, TimersRunInOrderNotBeforeTheirTime) {
  Clock& clock = Clock::Real();
  Mutex mu;
  std::string order;
  std::atomic<int> ran{0};
  const absl::Time start = clock.Now();
  std::atomic<bool> early{false};
  const auto add = [&](char name, absl::Duration delay) {
    clock.CallAfter(delay, [&, name, delay] {
      if (clock.Now() < start + delay) early = true;
      MutexLock lock(mu);
      order += name;
      ++ran;
    });
  };
  add('c', absl::Milliseconds(30));
  add('a', absl::Milliseconds(10));
  add('b', absl::Milliseconds(20));
  ASSERT_TRUE(testing::WaitUntil([&] { return ran == 3; }));
  MutexLock lock(mu);
  EXPECT_EQ(order, "abc");
  EXPECT_FALSE(early);
}

TEST(RealClock, CancelPreventsTheCall) {
  Clock& clock = Clock::Real();
  auto ran = std::make_shared<std::atomic<bool>>(false);
  const TimerId id = clock.CallAfter(absl::Hours(1), [ran] { *ran = true; });
  EXPECT_EQ(ran.use_count(), 2);
  EXPECT_TRUE(clock.CancelTimer(id));
  EXPECT_EQ(ran.use_count(), 1);  // what the timer held is gone
  EXPECT_FALSE(clock.CancelTimer(id));
}

TEST(RealClock, TimersMayNotBlock) {
  std::atomic<int> role{-1};
  Clock::Real().CallAfter(absl::ZeroDuration(),
                          [&] { role = static_cast<int>(CurrentThreadRole()); });
  ASSERT_TRUE(testing::WaitUntil([&] { return role >= 0; }));
  EXPECT_EQ(role, static_cast<int>(ThreadRole::kPolling));
}

}  // namespace
}  // namespace gradwire
