#include "server/store/push_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/server/store/store_testutil.h"
#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::optional<PushAnswer> kNew;

PushId Push(uint64_t sequence, uint64_t incarnation = 1, uint64_t worker = 1) {
  return {WorkerNameId{worker}, Incarnation{incarnation}, sequence};
}
std::optional<PushAnswer> Version(uint64_t version) { return PushAnswer{version}; }

TEST(PushWindow, RepetitionGetsTheFirstAnswer) {
  PushWindow window;
  EXPECT_THAT(window.Admit(Push(1), 1), IsOkAndHolds(kNew));
  window.Record(Push(1), {10});
  EXPECT_THAT(window.Admit(Push(1), 1), IsOkAndHolds(Version(10)));
  EXPECT_THAT(window.Admit(Push(2), 1), IsOkAndHolds(kNew));
  window.Record(Push(2), {11});
  EXPECT_THAT(window.Admit(Push(1), 1), IsOkAndHolds(Version(10)));
  EXPECT_THAT(window.Admit(Push(2), 1), IsOkAndHolds(Version(11)));
  EXPECT_EQ(window.answer_count(), 2u);
}

// Admitted but never recorded (the push was refused later on): as if it had not come.
TEST(PushWindow, WhatWasNotAppliedIsStillNew) {
  PushWindow window;
  EXPECT_THAT(window.Admit(Push(1), 1), IsOkAndHolds(kNew));
  EXPECT_THAT(window.Admit(Push(1), 1), IsOkAndHolds(kNew));
  EXPECT_EQ(window.answer_count(), 0u);
}

TEST(PushWindow, RefusesWhatItsSenderHasFinished) {
  PushWindow window;
  for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
    ASSERT_THAT(window.Admit(Push(sequence), 1), IsOkAndHolds(kNew));
    window.Record(Push(sequence), {sequence * 10});
  }
  EXPECT_THAT(window.Admit(Push(6), 4), IsOkAndHolds(kNew));
  EXPECT_EQ(window.answer_count(), 2u);
  EXPECT_THAT(window.Admit(Push(3), 1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                 AllOf(HasSubstr("push 3"), HasSubstr("below 4"))));
  EXPECT_THAT(window.Admit(Push(4), 1), IsOkAndHolds(Version(40)));  // an old finished_below
  EXPECT_THAT(window.Admit(Push(7), 8), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(PushWindow, AnyOrder) {
  const uint64_t seed = TestSeed();
  SeededRng rng(seed);
  PushWindow window;
  std::vector<uint64_t> order(1000);
  std::iota(order.begin(), order.end(), 1);
  std::map<uint64_t, uint64_t> applied;
  uint64_t version = 0;
  // Each in a neighbourhood of 50, twice, with acknowledgements in between.
  for (uint64_t at = 0; at + 50 <= order.size(); at += 50) {
    std::vector<uint64_t> pushes(order.begin() + static_cast<ptrdiff_t>(at),
                                 order.begin() + static_cast<ptrdiff_t>(at + 50));
    pushes.insert(pushes.end(), pushes.begin(), pushes.end());
    for (size_t i = pushes.size() - 1; i > 0; --i) std::swap(pushes[i], pushes[rng.Below(i + 1)]);
    for (const uint64_t sequence : pushes) {
      const auto seen = window.Admit(Push(sequence), at + 1);
      ASSERT_TRUE(seen.ok()) << seen.status() << ", seed " << seed;
      const auto known = applied.find(sequence);
      if (known != applied.end()) {
        ASSERT_EQ(*seen, Version(known->second)) << sequence << ", seed " << seed;
        continue;
      }
      ASSERT_EQ(*seen, kNew) << sequence << ", seed " << seed;
      applied[sequence] = ++version;
      window.Record(Push(sequence), {version});
    }
    ASSERT_EQ(window.answer_count(), 50u);
  }
  EXPECT_EQ(version, 1000u);
}

TEST(PushWindow, ANewLifeFencesTheOldOne) {
  PushWindow window;
  ASSERT_THAT(window.Admit(Push(1, 5), 1), IsOkAndHolds(kNew));
  window.Record(Push(1, 5), {10});
  ASSERT_THAT(window.Admit(Push(1, 6), 1), IsOkAndHolds(kNew));  // another push than 5's
  window.Record(Push(1, 6), {11});
  EXPECT_THAT(window.Admit(Push(1, 6), 1), IsOkAndHolds(Version(11)));
  EXPECT_THAT(window.Admit(Push(1, 5), 1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("incarnation 5"), HasSubstr("incarnation 6"))));
  EXPECT_THAT(window.Admit(Push(2, 5), 1), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(window.answer_count(), 1u);
  EXPECT_EQ(window.worker_count(), 1u);
}

TEST(PushWindow, WorkersAreApart) {
  PushWindow window;
  ASSERT_THAT(window.Admit(Push(1, 1, 1), 1), IsOkAndHolds(kNew));
  window.Record(Push(1, 1, 1), {10});
  EXPECT_THAT(window.Admit(Push(1, 1, 2), 1), IsOkAndHolds(kNew));
  EXPECT_THAT(window.Admit(Push(9, 9, 2), 9), IsOkAndHolds(kNew));
  EXPECT_THAT(window.Admit(Push(1, 1, 1), 1), IsOkAndHolds(Version(10)));
}

TEST(PushWindow, IsBounded) {
  PushWindow window({.max_answers_per_worker = 3, .max_workers = 2});
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_THAT(window.Admit(Push(sequence), 1), IsOkAndHolds(kNew));
    window.Record(Push(sequence), {sequence});
  }
  EXPECT_THAT(window.Admit(Push(4), 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_answers_per_worker")));
  EXPECT_THAT(window.Admit(Push(2), 1), IsOkAndHolds(Version(2)));  // goes on serving
  EXPECT_THAT(window.Admit(Push(4), 2), IsOkAndHolds(kNew));
  EXPECT_THAT(window.Admit(Push(1, 1, 2), 1), IsOkAndHolds(kNew));
  EXPECT_THAT(window.Admit(Push(1, 1, 3), 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_workers")));
  EXPECT_EQ(window.worker_count(), 2u);
}

TEST(PushWindow, ShowsWhatACheckpointNeeds) {
  PushWindow window;
  ASSERT_THAT(window.Admit(Push(3, 7), 2), IsOkAndHolds(kNew));
  window.Record(Push(3, 7), {30});
  ASSERT_THAT(window.Admit(Push(2, 7), 2), IsOkAndHolds(kNew));
  window.Record(Push(2, 7), {31});
  int calls = 0;
  window.ForEach([&](WorkerNameId worker, Incarnation incarnation, uint64_t finished_below,
                     std::span<const AnsweredPush> answers) {
    ++calls;
    EXPECT_EQ(worker, WorkerNameId{1});
    EXPECT_EQ(incarnation, Incarnation{7});
    EXPECT_EQ(finished_below, 2u);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(answers[0].sequence, 2u);
    EXPECT_EQ(answers[0].answer.version, 31u);
    EXPECT_EQ(answers[1].sequence, 3u);
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace gradwire::server
