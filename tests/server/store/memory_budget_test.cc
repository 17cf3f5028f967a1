#include "server/store/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryBudget, RefusesWhatGoesOverAndNamesIt) {
  MemoryBudget budget(1000);
  EXPECT_THAT(budget.Reserve(600, "rows of table emb"), IsOk());
  EXPECT_THAT(budget.Reserve(401, "rows of table emb"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("401 bytes"), HasSubstr("rows of table emb"),
                             HasSubstr("600 of 1000"), HasSubstr("--memory-limit"))));
  EXPECT_EQ(budget.used_bytes(), 600u);
  EXPECT_EQ(budget.refused_count(), 1u);
  EXPECT_THAT(budget.Reserve(400, "rows"), IsOk());
  EXPECT_THAT(budget.Reserve(1, "rows"), StatusIs(absl::StatusCode::kResourceExhausted));
  budget.Release(1000);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_THAT(budget.Reserve(SIZE_MAX, "rows"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(MemoryBudget, ZeroIsNoLimit) {
  MemoryBudget budget(0);
  EXPECT_THAT(budget.Reserve(size_t{1} << 50, "rows"), IsOk());
  EXPECT_EQ(budget.used_bytes(), size_t{1} << 50);
}

TEST(MemoryBudget, NeverGivesMoreThanThereIsToManyThreads) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  std::atomic<size_t> got{0};  // a count; nothing else depends on it
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) got += budget.Reserve(1, "rows").ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(got.load(), 1000u);
  EXPECT_EQ(budget.used_bytes(), got.load());
}

TEST(BudgetShare, GivesBackWhatItHolds) {
  MemoryBudget budget(1000);
  {
    BudgetShare share(&budget);
    EXPECT_THAT(share.Reserve(700, "rows"), IsOk());
    share.Release(200);
    BudgetShare moved = std::move(share);
    EXPECT_EQ(moved.held_bytes(), 500u);
    EXPECT_EQ(budget.used_bytes(), 500u);
    BudgetShare other(&budget);
    EXPECT_THAT(other.Reserve(100, "rows"), IsOk());
    moved = std::move(other);
    EXPECT_EQ(budget.used_bytes(), 100u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  BudgetShare unlimited;
  EXPECT_THAT(unlimited.Reserve(5, "rows"), IsOk());
  EXPECT_EQ(unlimited.held_bytes(), 5u);
}

}  // namespace
}  // namespace gradwire::server
