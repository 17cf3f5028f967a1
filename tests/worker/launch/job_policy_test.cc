// What the launcher decides, without processes: a server is 0, workers are 1 and 2.
#include "worker/launch/job_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "rpc/base/rng.h"

namespace gradwire::launch {
namespace {

using Action = JobPolicy::Action;
using Orders = JobPolicy::Orders;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Order = JobPolicy::Order;

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr ProcessEnd kFine = {};

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }
ProcessEnd Status(int status) { return {.status = status}; }
ProcessEnd By(int signal) { return {.signal = signal}; }

JobPolicyOptions Options() {
  return {.server_count = 1,
          .worker_count = 2,
          .grace = absl::Seconds(5),
          .server_loss = absl::Seconds(10)};
}

class Policy : public ::testing::Test {
 protected:
  Policy() { EXPECT_EQ(policy_.Begin().size(), 3u); }
  JobPolicy policy_{Options()};
};

TEST_F(Policy, Names) {
  EXPECT_EQ(policy_.name(0), "ps0");
  EXPECT_EQ(policy_.name(1), "worker0");
  EXPECT_EQ(policy_.name(2), "worker1");
}

TEST_F(Policy, ServersEndAfterTheWorkers) {
  EXPECT_THAT(policy_.OnEnd(1, kFine, At(1)), IsEmpty());
  EXPECT_EQ(policy_.next_time(), absl::InfiniteFuture());
  EXPECT_THAT(policy_.OnEnd(2, kFine, At(2)), ElementsAre(Order{Action::kTerminate, 0}));
  EXPECT_EQ(policy_.next_time(), At(5.5));
  EXPECT_THAT(policy_.OnTime(At(5.4)), IsEmpty());
  EXPECT_FALSE(policy_.finished());
  EXPECT_THAT(policy_.OnEnd(0, kFine, At(3)), IsEmpty());
  EXPECT_TRUE(policy_.finished());
  EXPECT_EQ(policy_.exit_status(), 0);
}

TEST_F(Policy, AServerThatStaysIsKilledOnce) {
  policy_.OnEnd(1, kFine, At(1));
  policy_.OnEnd(2, kFine, At(2));
  EXPECT_THAT(policy_.OnTime(At(6)), ElementsAre(Order{Action::kKill, 0}));
  EXPECT_THAT(policy_.OnTime(At(60)), IsEmpty());
  EXPECT_THAT(policy_.killed(), ElementsAre(0));
  policy_.OnEnd(0, By(SIGKILL), At(61));
  EXPECT_EQ(policy_.exit_status(), 0);
}

TEST_F(Policy, AServerThatFailsAtTheEndFailsTheJob) {
  policy_.OnEnd(1, kFine, At(1));
  policy_.OnEnd(2, kFine, At(2));
  policy_.OnEnd(0, Status(4), At(3));
  EXPECT_EQ(policy_.exit_status(), 4);
}

TEST_F(Policy, AServerMayDieOfTheWordToEnd) {
  policy_.OnEnd(1, kFine, At(1));
  policy_.OnEnd(2, kFine, At(2));
  policy_.OnEnd(0, By(SIGTERM), At(3));
  EXPECT_EQ(policy_.exit_status(), 0);
}

TEST_F(Policy, TheFirstFailureCounts) {
  EXPECT_THAT(policy_.OnEnd(2, Status(7), At(1)), IsEmpty());  // worker0 goes on
  EXPECT_THAT(policy_.OnEnd(1, By(SIGSEGV), At(2)), ElementsAre(Order{Action::kTerminate, 0}));
  policy_.OnEnd(0, kFine, At(3));
  EXPECT_EQ(policy_.exit_status(), 7);
  ASSERT_TRUE(policy_.failure());
  EXPECT_EQ(policy_.failure()->process, 2);
}

TEST_F(Policy, ALostServerGivesTheWorkersTime) {
  EXPECT_THAT(policy_.OnEnd(0, By(SIGKILL), At(1)), IsEmpty());
  EXPECT_EQ(policy_.next_time(), At(11));
  EXPECT_THAT(policy_.OnEnd(1, Status(1), At(2)), IsEmpty());
  EXPECT_THAT(policy_.OnTime(At(11)), ElementsAre(Order{Action::kTerminate, 2}));
  EXPECT_THAT(policy_.OnTime(At(15)), ElementsAre(Order{Action::kKill, 2}));
  EXPECT_THAT(policy_.OnEnd(2, By(SIGKILL), At(15)), IsEmpty());
  EXPECT_TRUE(policy_.finished());
  EXPECT_EQ(policy_.exit_status(), 128 + SIGKILL);
  EXPECT_TRUE(policy_.failure()->early);
}

TEST_F(Policy, AServerThatLeavesEarlyIsAFailure) {
  policy_.OnEnd(0, kFine, At(1));
  policy_.OnEnd(1, kFine, At(2));
  policy_.OnEnd(2, kFine, At(2));
  EXPECT_TRUE(policy_.finished());
  EXPECT_EQ(policy_.exit_status(), 1);
}

TEST_F(Policy, AnInterruptEndsWorkersThenServers) {
  EXPECT_THAT(policy_.OnInterrupt(SIGINT, At(1)),
              ElementsAre(Order{Action::kTerminate, 1}, Order{Action::kTerminate, 2}));
  EXPECT_THAT(policy_.OnEnd(1, kFine, At(1.5)), IsEmpty());
  EXPECT_THAT(policy_.OnEnd(2, Status(1), At(2)), ElementsAre(Order{Action::kTerminate, 0}));
  policy_.OnEnd(0, kFine, At(2));
  EXPECT_EQ(policy_.exit_status(), 128 + SIGINT);
  EXPECT_FALSE(policy_.failure());
}

TEST_F(Policy, AnInterruptDoesNotWaitForWorkers) {
  policy_.OnInterrupt(SIGTERM, At(0));
  EXPECT_EQ(policy_.next_time(), At(1.5));
  EXPECT_THAT(policy_.OnTime(At(1.5)), ElementsAre(Order{Action::kTerminate, 0}));
  EXPECT_EQ(policy_.next_time(), At(3.5));
  EXPECT_THAT(policy_.OnTime(At(3.5)),
              UnorderedElementsAre(Order{Action::kKill, 0}, Order{Action::kKill, 1},
                                   Order{Action::kKill, 2}));
}

TEST_F(Policy, AFailureBeforeAnInterruptStays) {
  policy_.OnEnd(1, Status(3), At(0));
  policy_.OnInterrupt(SIGINT, At(1));
  EXPECT_EQ(policy_.exit_status(), 3);
}

TEST_F(Policy, AnInterruptAfterTheWorkersChangesNothing) {
  policy_.OnEnd(1, kFine, At(1));
  policy_.OnEnd(2, kFine, At(2));
  EXPECT_THAT(policy_.OnInterrupt(SIGINT, At(3)), IsEmpty());
  policy_.OnEnd(0, kFine, At(4));
  EXPECT_EQ(policy_.exit_status(), 0);
}

TEST_F(Policy, AProcessThatCannotBeStartedEndsTheJob) {
  EXPECT_THAT(policy_.OnStartFailed(1, At(0)), ElementsAre(Order{Action::kTerminate, 2}));
  EXPECT_THAT(policy_.OnEnd(2, By(SIGTERM), At(1)), ElementsAre(Order{Action::kTerminate, 0}));
  policy_.OnEnd(0, kFine, At(1));
  EXPECT_EQ(policy_.exit_status(), 126);
}

TEST(PolicyRestarts, AreCountedOverAllWorkers) {
  JobPolicyOptions options = Options();
  options.max_restarts = 2;
  JobPolicy policy(options);
  policy.Begin();
  EXPECT_THAT(policy.OnEnd(1, Status(3), At(0)), ElementsAre(Order{Action::kStart, 1}));
  EXPECT_THAT(policy.OnEnd(2, By(SIGKILL), At(1)), ElementsAre(Order{Action::kStart, 2}));
  EXPECT_EQ(policy.restart_count(), 2);
  EXPECT_THAT(policy.OnEnd(1, Status(4), At(2)), IsEmpty());
  EXPECT_THAT(policy.OnEnd(2, kFine, At(3)), ElementsAre(Order{Action::kTerminate, 0}));
  policy.OnEnd(0, kFine, At(3));
  EXPECT_EQ(policy.exit_status(), 4);
}

TEST(PolicyRestarts, NoneAfterAnInterruptNorALostServer) {
  JobPolicyOptions options = Options();
  options.max_restarts = 9;
  JobPolicy interrupted(options);
  interrupted.Begin();
  interrupted.OnInterrupt(SIGINT, At(0));
  EXPECT_THAT(interrupted.OnEnd(1, Status(3), At(1)), IsEmpty());
  JobPolicy lost(options);
  lost.Begin();
  lost.OnEnd(0, By(SIGKILL), At(0));
  EXPECT_THAT(lost.OnEnd(1, Status(3), At(1)), IsEmpty());
  EXPECT_EQ(lost.restart_count(), 0);
}

// Whatever happens in whatever order: all ends, within the times that were promised.
TEST(PolicyRandom, EveryJobEnds) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    SeededRng rng(seed);
    JobPolicyOptions options = Options();
    options.server_count = static_cast<int>(rng.Below(3));
    options.worker_count = 1 + static_cast<int>(rng.Below(3));
    options.max_restarts = static_cast<int>(rng.Below(3));
    JobPolicy policy(options);
    std::set<int> alive;
    absl::Time now = kStart, interrupted = absl::InfiniteFuture();
    const auto obey = [&](const Orders& orders) {
      for (const Order& order : orders) {
        if (order.action == Action::kStart) {
          EXPECT_TRUE(alive.insert(order.process).second);
        } else {
          EXPECT_TRUE(alive.contains(order.process));
        }
      }
    };
    const auto end = [&](int process, ProcessEnd how) {
      alive.erase(process);
      obey(policy.OnEnd(process, how, now));
    };
    obey(policy.Begin());
    for (int step = 0; step < 1000 && !policy.finished(); ++step) {
      ASSERT_FALSE(alive.empty());
      // Next: what is due, or something that happens before it.
      const absl::Time due = policy.next_time();
      const absl::Time happens = now + absl::Seconds(rng.Uniform() * 8);
      if (due <= happens) {
        now = std::max(now, due);
        const Orders orders = policy.OnTime(now);
        obey(orders);
        for (const Order& order : orders) {
          if (order.action == Action::kKill) end(order.process, By(SIGKILL));
        }
      } else if (now = happens; rng.Chance(0.1)) {
        obey(policy.OnInterrupt(SIGINT, now));
        if (policy.interrupt() != 0) interrupted = std::min(interrupted, now);
      } else {
        auto one = alive.begin();
        std::advance(one, rng.Below(alive.size()));
        end(*one, rng.Chance(0.5) ? kFine : Status(1));
      }
      EXPECT_LE(now, interrupted + options.grace);
    }
    EXPECT_TRUE(policy.finished());
    EXPECT_TRUE(alive.empty());
    EXPECT_LE(policy.restart_count(), options.max_restarts);
  }
}

TEST(ProcessEndText, SaysHow) {
  EXPECT_EQ(Status(3).ToString(), "ended with status 3");
  EXPECT_EQ(By(9).ToString(), "was killed by signal 9 (Killed)");
  EXPECT_EQ(By(99).ToString(), "was killed by signal 99 (unknown)");
  EXPECT_EQ(By(15).exit_status(), 143);
}

}  // namespace
}  // namespace gradwire::launch
