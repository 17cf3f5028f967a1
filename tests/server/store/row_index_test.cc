#include "server/store/row_index.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "rpc/base/rng.h"
#include "server/store/virtual_shard.h"
#include "tests/server/store/store_testutil.h"
#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;

// An index with the records that it is about.
class Indexed {
 public:
  explicit Indexed(uint64_t seed = 0, MemoryBudget* budget = nullptr)
      : records_(0, budget), index_(records_, seed, budget) {}

  void Insert(int64_t id) {
    ASSERT_THAT(records_.Reserve(1, "rows"), IsOk());
    ASSERT_THAT(index_.Reserve(1, "rows"), IsOk());
    InsertReserved(id);
  }
  void InsertReserved(int64_t id) { index_.Insert(index_.Hash(id), records_.Add(id)); }
  void Erase(int64_t id) {
    const uint32_t number = Find(id);
    index_.Erase(index_.Hash(id), number);
    records_.Remove(number);
  }
  uint32_t Find(int64_t id) const {
    const uint32_t found = index_.Find(index_.Hash(id), id);
    // A guess may be another record's; where there is none, the id isn't near its home.
    const RowIndex::Probe probe = index_.Start(id);
    RowIndex::Candidates guess = index_.Guess(probe);
    if (guess.first == kNoRecord) guess = index_.GuessNext(probe);
    if (found != kNoRecord && (guess.first == found || guess.second == found)) ++guessed_count_;
    return found;
  }
  bool Has(int64_t id) const {
    const uint32_t number = Find(id);
    return number != kNoRecord && records_.IdOf(number) == id;
  }

  RecordSlabs records_;
  RowIndex index_;
  mutable size_t guessed_count_ = 0;
};

TEST(RowIndex, KnowsNothingWhileEmpty) {
  Indexed indexed;
  for (int64_t id = -100; id < 100; ++id) EXPECT_EQ(indexed.Find(id), kNoRecord);
  EXPECT_EQ(indexed.index_.resident_bytes(), 0u);
}

TEST(RowIndex, IsWhatAnUnorderedMapIs) {
  const uint64_t seed = TestSeed();
  SeededRng rng(seed);
  Indexed indexed(rng.Next());
  std::unordered_map<int64_t, uint32_t> model;
  // Ids out of a range that grows, so that most operations find something and the index grows.
  for (int step = 0; step < 120'000; ++step) {
    const auto id = static_cast<int64_t>(rng.Below(1000 + static_cast<uint64_t>(step) / 2)) - 500;
    const auto known = model.find(id);
    ASSERT_EQ(indexed.Find(id), known == model.end() ? kNoRecord : known->second)
        << "step " << step << ", seed " << seed;
    if (known == model.end()) {
      indexed.Insert(id);
      model[id] = indexed.Find(id);
    } else if (rng.Chance(0.3)) {
      indexed.Erase(id);
      model.erase(known);
    }
    ASSERT_EQ(indexed.index_.size(), model.size());
  }
  indexed.guessed_count_ = 0;
  for (const auto& [id, number] : model) ASSERT_EQ(indexed.Find(id), number);
  EXPECT_GT(indexed.guessed_count_, model.size() * 98 / 100) << seed;
  EXPECT_GT(model.size(), 10'000u);
}

// After every step of a growth, everything is found that was inserted, and nothing else.
TEST(RowIndex, FindsEverythingWhileItGrows) {
  Indexed indexed;
  size_t checked_count = 0;
  for (int64_t id = 0; id < 12'000; ++id) {
    indexed.Insert(id * 3);
    if (!indexed.index_.growing() || id % 32 != 0) continue;
    ++checked_count;
    for (int64_t known = 0; known <= id; ++known) ASSERT_TRUE(indexed.Has(known * 3)) << id;
    for (int64_t unknown = 0; unknown <= 100; ++unknown) {
      ASSERT_EQ(indexed.Find(unknown * 3 + 1), kNoRecord);
    }
  }
  EXPECT_GE(checked_count, 20u);
}

TEST(RowIndex, TakesLessThanNineBytesARow) {
  Indexed indexed;
  double most = 0;
  for (int64_t id = 0; id < 400'000; ++id) {
    indexed.Insert(id);
    if (id < 100'000 || indexed.index_.growing()) continue;
    const double bytes = static_cast<double>(indexed.index_.resident_bytes());
    most = std::max(most, bytes / static_cast<double>(indexed.index_.size()));
  }
  EXPECT_LE(most, 9.0);
  EXPECT_GE(most, 6.0);  // else the figure is wrong
  // Large enough that pages were given back while it grew.
  for (int64_t id = 0; id < 400'000; ++id) ASSERT_TRUE(indexed.Has(id)) << id;
}

// Ids whose homes are the last group of the first table, which has 56 for 504 entries: they fill
// the tail behind it and go on as strays.
TEST(RowIndex, FindsWhatPassesItsEnd) {
  Indexed indexed;
  std::vector<int64_t> ids;
  for (int64_t id = 0; ids.size() < 200; ++id) {
    if ((indexed.index_.Hash(id) >> 32) * 56 >> 32 == 55) ids.push_back(id);
  }
  for (const int64_t id : ids) indexed.Insert(id);
  for (const int64_t id : ids) ASSERT_TRUE(indexed.Has(id)) << id;
  for (size_t i = 0; i < ids.size(); i += 2) indexed.Erase(ids[i]);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(indexed.Has(ids[i]), i % 2 == 1) << i;
  }
  for (int64_t id = 1'000'000'000; id < 1'000'002'000; ++id) indexed.Insert(id);  // grows
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(indexed.Has(ids[i]), i % 2 == 1) << i;
  }
}

// Many ids with the same tag and the same home.
TEST(RowIndex, TellsApartWhatLooksAlike) {
  Indexed indexed;
  std::vector<int64_t> ids;
  for (int64_t id = 0; ids.size() < 40; ++id) {
    const uint64_t hash = indexed.index_.Hash(id);
    if ((hash >> 32) * 56 >> 32 == 20 && (hash & 0xff) == 7) ids.push_back(id);
  }
  for (size_t i = 0; i < ids.size() / 2; ++i) indexed.Insert(ids[i]);
  for (size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(indexed.Has(ids[i]), i < ids.size() / 2) << i;
  }
  // Erased, they leave no trace that would make later searches longer.
  EXPECT_GT(indexed.index_.Start(ids[0]).home->passed, 0u);
  for (size_t i = 0; i < ids.size() / 2; ++i) indexed.Erase(ids[i]);
  EXPECT_EQ(indexed.index_.Start(ids[0]).home->passed, 0u);
  EXPECT_EQ(indexed.index_.Start(ids[0]).home[1].passed, 0u);
}

// Whatever the ids have in common, they lie near their homes.
TEST(RowIndex, SpreadsPatterns) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{0x123456789abcdef}}) {
    std::vector<std::vector<int64_t>> patterns;
    for (const int64_t stride :
         {int64_t{1}, int64_t{2}, int64_t{-3}, int64_t{4096}, int64_t{1} << 20, int64_t{1} << 32,
          int64_t{1} << 48, int64_t{1'000'003}}) {
      std::vector<int64_t>& ids = patterns.emplace_back();
      for (int64_t i = 0; i < 15'000; ++i) ids.push_back(i * stride);
    }
    std::vector<int64_t>& shard = patterns.emplace_back();  // of one virtual shard
    for (int64_t id = 0; shard.size() < 1000; ++id) {
      if (ShardOf(id) == 77) shard.push_back(id);
    }
    for (const std::vector<int64_t>& ids : patterns) {
      Indexed indexed(seed);
      for (const int64_t id : ids) indexed.Insert(id);
      for (const int64_t id : ids) ASSERT_TRUE(indexed.Has(id));
      EXPECT_GT(indexed.guessed_count_, ids.size() * 98 / 100) << ids[1] << ", seed " << seed;
    }
  }
}

TEST(RowIndex, ErasedRoomIsUsedAgain) {
  Indexed indexed;
  for (int64_t id = 0; id < 5000; ++id) indexed.Insert(id);
  const size_t bytes = indexed.index_.resident_bytes();
  for (int round = 1; round < 20; ++round) {
    for (int64_t id = 0; id < 5000; ++id) indexed.Erase((round - 1) * 5000 + id);
    for (int64_t id = 0; id < 5000; ++id) indexed.Insert(round * 5000 + id);
  }
  EXPECT_EQ(indexed.index_.size(), 5000u);
  EXPECT_LE(indexed.index_.resident_bytes(), 2 * bytes);
  EXPECT_EQ(indexed.records_.end_number(), 5000u);
}

TEST(RowIndex, ReservesAllOrNothing) {
  MemoryBudget budget(size_t{1} << 20);
  Indexed indexed(0, &budget);
  for (int64_t id = 0; id < 1000; ++id) indexed.Insert(id);
  const size_t used = budget.used_bytes();
  EXPECT_THAT(indexed.index_.Reserve(1'000'000, "rows"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_LE(budget.used_bytes(), used);  // a growth that was under way has ended
  for (int64_t id = 0; id < 1000; ++id) ASSERT_TRUE(indexed.Has(id));
  ASSERT_THAT(indexed.index_.Reserve(20'000, "rows"), IsOk());
  ASSERT_THAT(indexed.records_.Reserve(20'000, "rows"), IsOk());
  const size_t reserved = budget.used_bytes();
  for (int64_t id = 1000; id < 21'000; ++id) indexed.InsertReserved(id);
  EXPECT_LE(budget.used_bytes(), reserved);
  for (int64_t id = 0; id < 21'000; ++id) ASSERT_TRUE(indexed.Has(id));
}

}  // namespace
}  // namespace gradwire::server
