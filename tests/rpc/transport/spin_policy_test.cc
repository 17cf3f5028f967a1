// When a polling thread polls: after quick events, not after fruitless tries, not where there is
// other work.
#include "rpc/transport/grpc/spin_policy.h"

#include <gtest/gtest.h>

namespace gradwire::rpc {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class SpinPolicyTest : public ::testing::Test {
 protected:
  // An event after `blocked`.
  bool EventAfter(SpinPolicy::Duration blocked) {
    const SpinPolicy::Time since = now_;
    now_ += blocked;
    return policy_.ShouldPoll(since, now_);
  }
  void Polled(bool any, bool preempted = false) {
    now_ += policy_.spin();
    policy_.Polled(now_, any, preempted);
  }

  SpinPolicy policy_{microseconds(30)};
  SpinPolicy::Time now_ = SpinPolicy::Time() + std::chrono::hours(1);
};

TEST_F(SpinPolicyTest, ZeroIsNever) {
  SpinPolicy never{SpinPolicy::Duration::zero()};
  EXPECT_FALSE(never.enabled());
  EXPECT_FALSE(never.ShouldPoll(now_, now_));
}

TEST_F(SpinPolicyTest, StopsAfterFruitlessTriesUntilAnEventComesQuickly) {
  for (int i = 0; i < SpinPolicy::kMaxFruitless; ++i) {
    ASSERT_TRUE(EventAfter(milliseconds(5))) << i;
    Polled(false);
  }
  EXPECT_FALSE(EventAfter(milliseconds(5)));
  EXPECT_FALSE(EventAfter(microseconds(121)));
  EXPECT_TRUE(EventAfter(microseconds(120)));
  // One try: fruitless again, it stops at once.
  Polled(false);
  EXPECT_FALSE(EventAfter(milliseconds(5)));
  EXPECT_TRUE(EventAfter(microseconds(10)));
  Polled(true);
  EXPECT_TRUE(EventAfter(milliseconds(5)));
}

TEST_F(SpinPolicyTest, RestsAfterAPreemptionLongerEachTime) {
  for (const auto rest : {10, 20, 40, 80, 160, 320, 640, 1000, 1000}) {
    ASSERT_TRUE(EventAfter(microseconds(10)));
    Polled(true, /*preempted=*/true);
    EXPECT_FALSE(EventAfter(milliseconds(rest) - microseconds(1))) << rest;
  }
  // It goes well for a second after the rest: the next rest is short again.
  EXPECT_TRUE(EventAfter(microseconds(10)));
  Polled(true);
  EXPECT_TRUE(EventAfter(milliseconds(1001)));
  Polled(true);
  EXPECT_TRUE(EventAfter(microseconds(10)));
  Polled(true, /*preempted=*/true);
  EXPECT_FALSE(EventAfter(milliseconds(9)));
  EXPECT_TRUE(EventAfter(milliseconds(2)));
}

}  // namespace
}  // namespace gradwire::rpc
