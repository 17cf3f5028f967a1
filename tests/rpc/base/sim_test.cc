#include "rpc/base/sim.h"

#include <gtest/gtest.h>

#include <string>

#include "rpc/base/future.h"
#include "tests/support/matchers.h"

namespace gradwire {
namespace {

using ::gradwire::testing::StatusIs;

TEST(SimLoop, RunsInTimeOrderAndTiesInOrderOfAdding) {
  SimLoop loop;
  std::string order;
  loop.CallAfter(absl::Seconds(2), [&] { order += 'c'; });
  loop.CallAfter(absl::Seconds(1), [&] { order += 'a'; });
  loop.CallAfter(absl::Seconds(1), [&] { order += 'b'; });
  const absl::Time start = loop.Now();
  while (loop.Step()) {
  }
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(loop.Now() - start, absl::Seconds(2));
}

TEST(SimLoop, CancelledTimersDoNotRun) {
  SimLoop loop;
  bool ran = false;
  const TimerId id = loop.CallAfter(absl::Seconds(1), [&] { ran = true; });
  EXPECT_TRUE(loop.CancelTimer(id));
  EXPECT_FALSE(loop.CancelTimer(id));
  loop.RunFor(absl::Seconds(5));
  EXPECT_FALSE(ran);
}

TEST(SimLoop, RunForStopsAtItsTime) {
  SimLoop loop;
  int ran = 0;
  loop.CallAfter(absl::Seconds(1), [&] { ++ran; });
  loop.CallAfter(absl::Seconds(3), [&] { ++ran; });
  loop.RunFor(absl::Seconds(2));
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(loop.RunUntil([&] { return ran == 5; }, loop.Now() + absl::Seconds(9)));
  EXPECT_EQ(ran, 2);
}

TEST(SimExecutor, TasksAreEventsAndWaitingIsRefused) {
  SimLoop loop;
  SimExecutor executor(&loop);
  absl::Status waited;
  Promise<int> promise;
  EXPECT_THAT(executor.Post([&] { waited = promise.future().Wait(absl::Seconds(1)).status(); }),
              testing::IsOk());
  while (loop.Step()) {
  }
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(SimExecutor, KilledOnesRunNothing) {
  SimLoop loop;
  SimExecutor executor(&loop);
  bool ran = false;
  EXPECT_THAT(executor.Post([&] { ran = true; }), testing::IsOk());
  executor.Kill();
  while (loop.Step()) {
  }
  EXPECT_FALSE(ran);
  EXPECT_THAT(executor.Post([] {}), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace gradwire
