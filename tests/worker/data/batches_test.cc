#include "worker/data/batches.h"

#include <gtest/gtest.h>

#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/matchers.h"

namespace gradwire::data {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;

// A dataset of numbers; fails at one of them.
struct Numbers {
  struct Batch {
    std::vector<int64_t> rows;
    int64_t epoch = 0;
  };
  int64_t count = 0;
  int64_t bad = -1;
  bool throws = false;
  int64_t row_count() const { return count; }
  absl::StatusOr<Batch> Take(std::span<const int64_t> rows) const {
    Batch batch;
    for (const int64_t row : rows) {
      if (row == bad && throws) throw std::runtime_error("row threw");
      if (row == bad) return absl::DataLossError("row is bad");
      batch.rows.push_back(row);
    }
    return batch;
  }
};

class BatchesTest : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Prefetch, BatchesTest, ::testing::Values(0, 1, 4));

TEST_P(BatchesTest, AllComeInOrder) {
  const Numbers numbers{.count = 25};
  Batches<Numbers> batches(numbers, {.rows = 10, .epochs = 3, .seed = 2, .prefetch = GetParam()});
  Batches<Numbers> same(numbers, {.rows = 10, .epochs = 3, .seed = 2, .prefetch = 0});
  EXPECT_EQ(batches.planned_rows(), 75);
  std::vector<size_t> sizes;
  for (const auto& batch : batches) {
    sizes.push_back(batch.rows.size());
    const auto expected = same.Next();
    ASSERT_TRUE(expected.has_value());
    EXPECT_EQ(batch.rows, expected->rows);
    EXPECT_EQ(batch.epoch, expected->epoch);
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{10, 10, 5, 10, 10, 5, 10, 10, 5}));
  EXPECT_THAT(batches.status(), IsOk());
  EXPECT_GE(batches.wait_time(), absl::ZeroDuration());
}

TEST_P(BatchesTest, LeftEarlyAndNeverBegun) {
  const Numbers numbers{.count = 1000};
  {
    Batches<Numbers> never(numbers, {.rows = 1, .prefetch = GetParam()});
  }
  Batches<Numbers> batches(numbers, {.rows = 1, .prefetch = GetParam()});
  for (const auto& batch : batches) {
    if (batch.rows[0] % 7 == 3) break;
  }
  EXPECT_THAT(batches.status(), IsOk());
}

TEST_P(BatchesTest, AnErrorEndsThem) {
  const Numbers numbers{.count = 100, .bad = 42};
  Batches<Numbers> batches(numbers, {.rows = 3, .epochs = 5, .prefetch = GetParam()});
  size_t count = 0;
  for ([[maybe_unused]] const auto& batch : batches) ++count;
  EXPECT_LT(count, 34u);
  EXPECT_THAT(batches.status(), StatusIs(absl::StatusCode::kDataLoss));
  const Numbers throwing{.count = 100, .bad = 42, .throws = true};
  Batches<Numbers> thrown(throwing, {.rows = 3, .prefetch = GetParam()});
  for ([[maybe_unused]] const auto& batch : thrown) {
  }
  EXPECT_THAT(thrown.status(),
              StatusIs(absl::StatusCode::kInternal, ::testing::HasSubstr("row threw")));
  Batches<Numbers> wrong(numbers, {.rows = 0, .prefetch = GetParam()});
  EXPECT_FALSE(wrong.Next().has_value());
  EXPECT_THAT(wrong.status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(BatchesTest, CancelEndsThemFromAnyThread) {
  const Numbers numbers{.count = 1000};
  Batches<Numbers> batches(numbers, {.rows = 1, .epochs = 1'000'000, .prefetch = GetParam()});
  std::thread other([&] { batches.Cancel(); });
  for ([[maybe_unused]] const auto& batch : batches) {
  }
  other.join();
  EXPECT_THAT(batches.status(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace gradwire::data
