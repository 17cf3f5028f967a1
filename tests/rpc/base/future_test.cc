#include "rpc/base/future.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "rpc/base/executor.h"
#include "tests/support/matchers.h"

namespace gradwire {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;

TEST(Future, HoldsWhatThePromiseSetsFirst) {
  Promise<int> promise;
  Future<int> future = promise.future();
  EXPECT_FALSE(future.ready());
  EXPECT_TRUE(promise.Set(3));
  EXPECT_FALSE(promise.Set(4));
  EXPECT_THAT(future.Wait(absl::Seconds(1)), IsOkAndHolds(3));
  EXPECT_THAT(future.outcome(), IsOkAndHolds(3));
}

TEST(Future, WaitEndsAtItsDeadlineAndTheFutureStaysUsable) {
  Promise<int> promise;
  Future<int> future = promise.future();
  EXPECT_THAT(future.Wait(absl::Milliseconds(1)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  promise.Set(1);
  EXPECT_THAT(future.Wait(absl::Milliseconds(1)), IsOkAndHolds(1));
}

TEST(Future, WakesAWaiterOnAnotherThread) {
  Promise<int> promise;
  Future<int> future = promise.future();
  std::thread setter([&promise] { promise.Set(9); });
  EXPECT_THAT(future.Wait(absl::Seconds(20)), IsOkAndHolds(9));
  setter.join();
}

// Drives by running one task, or refuses.
class TestDriver final : public WaitDriver, public WaitDriverSource {
 public:
  std::shared_ptr<WaitDriver> wait_driver() override {
    return std::shared_ptr<WaitDriver>(std::shared_ptr<WaitDriver>(), this);
  }
  bool Drive(const std::atomic<bool>& done, absl::Time) override {
    if (refuse) return false;
    work();
    while (!done) std::this_thread::yield();
    return true;
  }
  void Woken() override { ++woken; }
  void Kick() override { ++kicked; }

  Task work;
  bool refuse = false;
  std::atomic<int> woken{0};
  std::atomic<int> kicked{0};
};

template <class T>
std::shared_ptr<WaitDriverSource> Unowned(T& driver) {
  return std::shared_ptr<WaitDriverSource>(std::shared_ptr<WaitDriverSource>(), &driver);
}

TEST(Future, AWaiterDoesTheWorkThatBringsTheResult) {
  TestDriver driver;
  Promise<int> promise;
  promise.SetWaitDriver(Unowned(driver));
  driver.work = [&] { promise.Set(5); };
  EXPECT_THAT(promise.future().Wait(absl::Seconds(20)), IsOkAndHolds(5));
  EXPECT_EQ(driver.woken, 0);
}

TEST(Future, AResultFromElsewhereKicksTheWaiterThatDrives) {
  TestDriver driver;
  Promise<int> promise;
  promise.SetWaitDriver(Unowned(driver));
  std::thread setter;
  driver.work = [&] { setter = std::thread([&] { promise.Set(6); }); };
  EXPECT_THAT(promise.future().Wait(absl::Seconds(20)), IsOkAndHolds(6));
  setter.join();
  EXPECT_EQ(driver.kicked, 1);
  EXPECT_EQ(driver.woken, 0);
}

TEST(Future, AWaiterThatMayNotDriveSleepsAndIsReportedAsWokenOnce) {
  TestDriver driver;
  driver.refuse = true;
  {
    Promise<int> promise;
    promise.SetWaitDriver(Unowned(driver));
    std::thread setter([&promise] { promise.Set(7); });
    EXPECT_THAT(promise.future().Wait(absl::Seconds(20)), IsOkAndHolds(7));
    setter.join();
  }
  // Set before, or during, the wait: whoever ended it reported it, or it never began.
  EXPECT_LE(driver.woken, 1);
  Promise<int> late;
  late.SetWaitDriver(Unowned(driver));
  driver.woken = 0;
  EXPECT_THAT(late.future().Wait(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(driver.woken, 1);
  late.Set(1);
  EXPECT_EQ(driver.woken, 1);
}

TEST(Future, ABrokenPromiseCancels) {
  Future<int> future;
  EXPECT_FALSE(future.valid());
  {
    Promise<int> promise;
    future = promise.future();
  }
  EXPECT_THAT(future.Wait(absl::Seconds(1)), StatusIs(absl::StatusCode::kCancelled));
}

TEST(Future, CancelEndsItAtOnceAndTellsTheProducer) {
  Promise<int> promise;
  int told = 0;
  promise.OnCancel([&] { ++told; });
  Future<int> future = promise.future();
  future.Cancel();
  future.Cancel();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(future.Wait(absl::Seconds(1)), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_FALSE(promise.Set(1));
}

TEST(Future, CancelAfterTheResultDoesNothing) {
  Promise<int> promise;
  int told = 0;
  promise.OnCancel([&] { ++told; });
  Future<int> future = promise.future();
  promise.Set(5);
  future.Cancel();
  EXPECT_EQ(told, 0);
  EXPECT_THAT(future.Wait(absl::Seconds(1)), IsOkAndHolds(5));
}

TEST(Future, ThenMapsValuesStatusesAndFutures) {
  Promise<int> promise;
  Future<int> base = promise.future();
  Future<std::string> mapped =
      base.ThenInline([](const absl::StatusOr<int>& n) { return std::to_string(n.value_or(0)); });
  Future<void> status = base.ThenInline([](const absl::StatusOr<int>& n) { return n.status(); });
  Promise<double> inner;
  Future<double> chained =
      base.ThenInline([f = inner.future()](const absl::StatusOr<int>&) { return f; });
  Future<void> nothing = base.ThenInline([](const absl::StatusOr<int>&) {});
  promise.Set(12);
  EXPECT_THAT(mapped.Wait(absl::Seconds(1)), IsOkAndHolds("12"));
  EXPECT_THAT(status.Wait(absl::Seconds(1)), IsOk());
  EXPECT_THAT(nothing.Wait(absl::Seconds(1)), IsOk());
  EXPECT_FALSE(chained.ready());
  inner.Set(0.5);
  EXPECT_THAT(chained.Wait(absl::Seconds(1)), IsOkAndHolds(0.5));
}

TEST(Future, ThenRunsOnItsExecutorAndFailsWhenThatRefuses) {
  Promise<int> promise;
  auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.name = "then", .slot_count = 1});
  Future<bool> there = promise.future().Then(pool.get(), [](const absl::StatusOr<int>&) {
    return CurrentThreadRole() == ThreadRole::kExecutor;
  });
  promise.Set(1);
  EXPECT_THAT(there.Wait(absl::Seconds(10)), IsOkAndHolds(true));
  pool->Close();
  Future<int> refused =
      promise.future().Then(pool.get(), [](const absl::StatusOr<int>& n) { return *n; });
  EXPECT_THAT(refused.Wait(absl::Seconds(10)), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(Future, CancellingAContinuationCancelsItsSource) {
  Promise<int> promise;
  bool told = false;
  promise.OnCancel([&] { told = true; });
  Future<int> mapped = promise.future().ThenInline([](const absl::StatusOr<int>&) { return 1; });
  mapped.Cancel();
  EXPECT_TRUE(told);
}

TEST(Future, MoveOnlyValuesMoveOut) {
  Promise<std::unique_ptr<int>> promise;
  Future<std::unique_ptr<int>> future = promise.future();
  promise.Set(std::make_unique<int>(4));
  absl::StatusOr<std::unique_ptr<int>> value = std::move(future).Wait(absl::Seconds(1));
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ(**value, 4);
}

TEST(Future, WaitOnAPollingThreadFailsAtOnce) {
  ScopedThreadRole role(ThreadRole::kPolling);
  Promise<int> promise;
  EXPECT_THAT(promise.future().Wait(absl::Hours(1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(WhenAll, KeepsOrderAndErrors) {
  Promise<int> a, b;
  Future<std::vector<absl::StatusOr<int>>> all =
      WhenAll(std::vector<Future<int>>{a.future(), b.future()});
  b.Set(absl::AbortedError("b"));
  EXPECT_FALSE(all.ready());
  a.Set(1);
  const auto outcomes = all.Wait(absl::Seconds(1));
  ASSERT_THAT(outcomes, IsOk());
  EXPECT_THAT((*outcomes)[0], IsOkAndHolds(1));
  EXPECT_THAT((*outcomes)[1], StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(WhenAll(std::vector<Future<int>>()).Wait(absl::Seconds(1)), IsOk());
}

TEST(WhenAll, CancelReachesAll) {
  Promise<int> a, b;
  int told = 0;
  a.OnCancel([&] { ++told; });
  b.OnCancel([&] { ++told; });
  WhenAll(std::vector<Future<int>>{a.future(), b.future()}).Cancel();
  EXPECT_EQ(told, 2);
}

TEST(WhenAny, GivesTheFirst) {
  Promise<int> a, b;
  Future<size_t> first = WhenAny(std::vector<Future<int>>{a.future(), b.future()});
  b.Set(1);
  a.Set(1);
  EXPECT_THAT(first.Wait(absl::Seconds(1)), IsOkAndHolds(1u));
  EXPECT_THAT(WhenAny(std::vector<Future<int>>()).Wait(absl::Seconds(1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Future, ManyThreadsSetCancelAndWait) {
  for (int round = 0; round < 200; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    std::atomic<int> continued{0};
    future.OnReady([&](const absl::StatusOr<int>&) { ++continued; });
    std::thread setter([&] { promise.Set(1); });
    std::thread canceller([future] { future.Cancel(); });
    const absl::StatusOr<int> value = future.Wait(absl::Seconds(20));
    setter.join();
    canceller.join();
    EXPECT_TRUE(value.ok() || absl::IsCancelled(value.status())) << value.status();
    EXPECT_EQ(continued, 1);
  }
}

}  // namespace
}  // namespace gradwire
