#include "worker/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/matchers.h"
#include "worker/data/split.h"

namespace gradwire::data {
namespace {

using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<std::vector<int64_t>> AllOf(const SamplerOptions& options) {
  ShardedSampler sampler = *ShardedSampler::Create(options);
  std::vector<std::vector<int64_t>> epochs;
  std::vector<int64_t> rows;
  int64_t epoch = 0;
  int64_t count = 0;
  while (sampler.Next(rows, epoch)) {
    EXPECT_LE(static_cast<int64_t>(rows.size()), options.batch_rows);
    epochs.resize(std::max(epochs.size(), static_cast<size_t>(epoch)));
    epochs[static_cast<size_t>(epoch - 1)].insert(epochs[static_cast<size_t>(epoch - 1)].end(),
                                                  rows.begin(), rows.end());
    count += static_cast<int64_t>(rows.size());
  }
  EXPECT_EQ(count, sampler.planned_rows());
  EXPECT_FALSE(sampler.Next(rows, epoch)) << "the end stays the end";
  return epochs;
}

TEST(ShardedSampler, EveryRowComesOnceAnEpochOverAllRanks) {
  for (const int64_t rows : {1, 2, 7, 64, 1001}) {
    for (const int world : {1, 2, 3, 8}) {
      for (const int64_t batch : {1, 5, 64}) {
        std::vector<std::multiset<int64_t>> seen(3);
        for (int rank = 0; rank < world; ++rank) {
          const auto epochs = AllOf({.row_count = rows,
                                     .batch_rows = batch,
                                     .epochs = 3,
                                     .rank = rank,
                                     .world = world,
                                     .seed = 4});
          for (size_t i = 0; i < epochs.size(); ++i) {
            seen[i].insert(epochs[i].begin(), epochs[i].end());
          }
        }
        for (const auto& epoch : seen) {
          ASSERT_EQ(epoch.size(), static_cast<size_t>(rows));
          ASSERT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), epoch.size());
        }
      }
    }
  }
}

TEST(ShardedSampler, EveryEpochAndSeedHasItsOwnOrder) {
  const auto a = AllOf({.row_count = 100, .batch_rows = 10, .epochs = 2, .seed = 1});
  const auto again = AllOf({.row_count = 100, .batch_rows = 7, .epochs = 2, .seed = 1});
  const auto b = AllOf({.row_count = 100, .batch_rows = 10, .epochs = 2, .seed = 2});
  EXPECT_EQ(a, again);
  EXPECT_NE(a[0], a[1]);
  EXPECT_NE(a[0], b[0]);
}

TEST(ShardedSampler, MoreWorkersThanRows) {
  EXPECT_TRUE(AllOf({.row_count = 2, .batch_rows = 1, .rank = 2, .world = 3}).empty());
  EXPECT_TRUE(AllOf({.row_count = 0, .batch_rows = 1}).empty());
}

TEST(ShardedSampler, WhatCannotBeIsNamed) {
  EXPECT_THAT(ShardedSampler::Create({.row_count = 1, .batch_rows = 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batches of 0 rows")));
  EXPECT_THAT(
      ShardedSampler::Create({.row_count = 1, .batch_rows = 1, .rank = 2, .world = 2}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2 of 2")));
}

// The split decides every figure that is published: it must not move.
TEST(Split, IsPinned) {
  const Split split = SplitRows(5000, 1000, 1);
  EXPECT_EQ(split.test.size(), 1000u);
  EXPECT_EQ(split.train.size(), 4000u);
  std::set<int64_t> all(split.test.begin(), split.test.end());
  all.insert(split.train.begin(), split.train.end());
  EXPECT_EQ(all.size(), 5000u);
  int64_t sum = 0;
  for (size_t i = 0; i < split.test.size(); ++i) sum += static_cast<int64_t>(i + 1) * split.test[i];
  EXPECT_EQ(sum, 1243214578);
}

}  // namespace
}  // namespace gradwire::data
