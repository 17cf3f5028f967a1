#include "server/store/row_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/server/store/store_testutil.h"
#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

optim::Rule MakeRule(const optim::RuleOptions& options) {
  auto rule = optim::Rule::Create(options);
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *rule;
}

optim::Initializer MakeInit(uint64_t seed = 3) {
  auto init = optim::Initializer::Create(optim::Normal(0, 0.1), seed, 1);
  EXPECT_TRUE(init.ok()) << init.status();
  return *init;
}

std::unique_ptr<RowStore> MakeStore(RowStoreOptions options) {
  auto store = RowStore::Create(std::move(options));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

// A row as it should be.
struct ModelRow {
  std::vector<float> weights, slots;
  uint32_t version = 0;
};

class Model {
 public:
  Model(size_t dim, optim::Rule rule, optim::Initializer init)
      : dim_(dim), rule_(std::move(rule)), init_(std::move(init)) {}

  ModelRow Fresh(int64_t id) const {
    ModelRow row{std::vector<float>(dim_), std::vector<float>(rule_.SlotCount(dim_)), 0};
    init_.Fill(id, row.weights);
    rule_.InitSlots(row.slots, dim_);
    return row;
  }
  ModelRow& Row(int64_t id) { return rows.try_emplace(id, Fresh(id)).first->second; }
  void Update(double lr, const std::vector<int64_t>& ids, const std::vector<float>& gradients) {
    if (!ids.empty()) ++version;
    for (size_t i = 0; i < ids.size(); ++i) {
      ModelRow& row = Row(ids[i]);
      rule_.Apply(lr, row.weights, row.slots, {&gradients[i * dim_], dim_});
      row.version = version;
    }
  }

  std::map<int64_t, ModelRow> rows;
  uint32_t version = 0;

 private:
  const size_t dim_;
  const optim::Rule rule_;
  const optim::Initializer init_;
};

void ExpectSame(const RowStore& store, const Model& model) {
  ASSERT_EQ(store.row_count(), model.rows.size());
  ASSERT_EQ(store.version(), model.version);
  size_t seen = 0;
  ShardSet all;
  all.set();
  ASSERT_THAT(store.ForEach(all,
                            [&](VirtualShard shard, const RowView& row) {
                              ++seen;
                              EXPECT_EQ(shard, ShardOf(row.id));
                              const auto known = model.rows.find(row.id);
                              if (known == model.rows.end()) {
                                return absl::InternalError("a row too many");
                              }
                              EXPECT_TRUE(std::ranges::equal(row.weights, known->second.weights));
                              EXPECT_TRUE(std::ranges::equal(row.slots, known->second.slots));
                              EXPECT_EQ(row.version, known->second.version);
                              return absl::OkStatus();
                            }),
              IsOk());
  ASSERT_EQ(seen, model.rows.size());
}

class RowStoreRuleTest : public ::testing::TestWithParam<optim::RuleOptions> {};

// Random operations on the store and on a map of vectors: the same bits.
TEST_P(RowStoreRuleTest, IsWhatAMapOfRowsIs) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  SeededRng rng(seed);
  const size_t dim = 1 + rng.Below(20);
  const optim::Rule rule = MakeRule(GetParam());
  Model model(dim, rule, MakeInit());
  const auto store = MakeStore(
      {.dim = dim, .rule = rule, .init = MakeInit(), .name = "emb", .index_seed = rng.Next()});
  for (int step = 0; step < 120; ++step) {
    std::vector<int64_t> ids(rng.Below(100));
    for (int64_t& id : ids) id = static_cast<int64_t>(rng.Below(3000)) - 1000;  // some twice
    std::vector<float> floats(ids.size() * dim);
    for (float& x : floats) x = static_cast<float>(rng.Uniform() - 0.5);
    std::vector<uint32_t> versions(ids.size(), 77);
    switch (rng.Below(5)) {
      case 0:
      case 1:
        ASSERT_THAT(store->Update(0.1, ids, floats), IsOk());
        model.Update(0.1, ids, floats);
        break;
      case 2: {
        ASSERT_THAT(store->Lookup(ids, true, floats, versions), IsOk());
        for (size_t i = 0; i < ids.size(); ++i) {
          const ModelRow& row = model.Row(ids[i]);
          ASSERT_TRUE(std::equal(row.weights.begin(), row.weights.end(), &floats[i * dim]));
          ASSERT_EQ(versions[i], row.version);
        }
        break;
      }
      case 3: {
        ASSERT_THAT(store->Lookup(ids, false, floats, versions), IsOk());
        for (size_t i = 0; i < ids.size(); ++i) {
          const auto known = model.rows.find(ids[i]);
          const ModelRow row = known != model.rows.end() ? known->second : model.Fresh(ids[i]);
          ASSERT_TRUE(std::equal(row.weights.begin(), row.weights.end(), &floats[i * dim]));
          ASSERT_EQ(versions[i], row.version);
        }
        break;
      }
      default: {
        ids.resize(ids.size() / 2);
        size_t erased = 0;
        for (const int64_t id : ids) erased += model.rows.erase(id);
        ASSERT_EQ(store->Erase(ids), erased);
      }
    }
  }
  ExpectSame(*store, model);
}

INSTANTIATE_TEST_SUITE_P(Rules, RowStoreRuleTest,
                         ::testing::Values(optim::Sgd{}, optim::Sgd{.momentum = 0.9},
                                           optim::Adagrad{.initial_accumulator = 0.1, .eps = 0},
                                           optim::RowwiseAdagrad{}, optim::Adam{}, optim::AdamW{},
                                           optim::RmsProp{.momentum = 0.5, .centered = true},
                                           optim::Ftrl{.l1 = 0.01}));

// A row's first value depends on its id alone: not on order, batch, growth, or the index's seed.
TEST(RowStore, FirstValuesDontDependOnTheOrder) {
  constexpr size_t kDim = 5;
  constexpr int64_t kIds = 2000;
  const auto a = MakeStore({.dim = kDim, .init = MakeInit(), .index_seed = 1});
  const auto b = MakeStore({.dim = kDim, .init = MakeInit(), .index_seed = 2});
  std::vector<int64_t> ids(kIds);
  for (int64_t i = 0; i < kIds; ++i) ids[static_cast<size_t>(i)] = i * 7919 - 1000;
  std::vector<float> rows_a(kIds * kDim), rows_b(kIds * kDim), again(kIds * kDim);
  ASSERT_THAT(a->Lookup(ids, true, rows_a), IsOk());
  for (size_t i = ids.size(); i-- > 0;) {
    ASSERT_THAT(b->Lookup({&ids[i], 1}, true, {&rows_b[i * kDim], kDim}), IsOk());
  }
  EXPECT_EQ(rows_a, rows_b);
  const auto empty = MakeStore({.dim = kDim, .init = MakeInit()});
  ASSERT_THAT(empty->Lookup(ids, false, again), IsOk());
  EXPECT_EQ(rows_a, again);
  EXPECT_EQ(empty->row_count(), 0u);
  EXPECT_EQ(empty->resident_bytes(), 0u);
  const auto other = MakeStore({.dim = kDim, .init = MakeInit(4)});
  ASSERT_THAT(other->Lookup(ids, true, again), IsOk());
  EXPECT_NE(rows_a, again);
}

TEST(RowStore, AnyIdIsAnId) {
  const auto store = MakeStore({.dim = 1});
  const std::vector<int64_t> ids = {0, -1, 1, std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()};
  const std::vector<float> values = {1, 2, 3, 4, 5};
  std::vector<float> rows(5);
  ASSERT_THAT(store->Assign(ids, values), IsOk());
  ASSERT_THAT(store->Lookup(ids, false, rows), IsOk());
  EXPECT_EQ(rows, values);
  EXPECT_EQ(store->row_count(), 5u);
}

// A repeated id makes one step for each place, in order, as two batches would.
TEST(RowStore, RepeatedIdsMakeOneStepEach) {
  const optim::Rule rule = MakeRule(optim::Adagrad{});
  const auto once = MakeStore({.dim = 2, .rule = rule});
  const auto twice = MakeStore({.dim = 2, .rule = rule});
  const std::vector<int64_t> ids = {7, 7};
  const std::vector<float> gradients = {1, 2, 3, 4};
  ASSERT_THAT(once->Update(0.1, ids, gradients), IsOk());
  ASSERT_THAT(twice->Update(0.1, std::span(ids).first(1), std::span(gradients).first(2)), IsOk());
  ASSERT_THAT(twice->Update(0.1, std::span(ids).first(1), std::span(gradients).last(2)), IsOk());
  std::vector<float> rows(4), want(2);
  ASSERT_THAT(once->Lookup(ids, false, rows), IsOk());
  ASSERT_THAT(twice->Lookup(std::span(ids).first(1), false, want), IsOk());
  EXPECT_EQ(rows, (std::vector<float>{want[0], want[1], want[0], want[1]}));
  EXPECT_EQ(once->row_count(), 1u);
  EXPECT_EQ(once->version(), 1u);
  EXPECT_EQ(twice->version(), 2u);
}

// Assigned rows train as new ones with these weights would.
TEST(RowStore, AssignForgetsTheSlots) {
  const optim::Rule rule = MakeRule(optim::Adagrad{.initial_accumulator = 0.1});
  const auto store = MakeStore({.dim = 2, .rule = rule, .init = MakeInit()});
  const std::vector<int64_t> known_and_new = {1, 2};
  const std::vector<float> ones(4, 1.0f);
  ASSERT_THAT(store->Update(0.1, std::span(known_and_new).first(1), std::span(ones).first(2)),
              IsOk());
  ASSERT_THAT(store->Assign(known_and_new, ones), IsOk());
  ASSERT_THAT(store->Update(0.1, known_and_new, ones), IsOk());
  std::vector<float> want(2, 1.0f), slots(2), rows(4);
  rule.InitSlots(slots, 2);
  rule.Apply(0.1, want, slots, std::span(ones).first(2));
  ASSERT_THAT(store->Lookup(known_and_new, false, rows), IsOk());
  EXPECT_EQ(rows, (std::vector<float>{want[0], want[1], want[0], want[1]}));
  EXPECT_EQ(store->version(), 3u);
}

TEST(RowStore, VersionsCountBatches) {
  const auto store = MakeStore({.dim = 1});
  const std::vector<int64_t> ids = {1, 2};
  std::vector<float> floats(2);
  std::vector<uint32_t> versions(2);
  ASSERT_THAT(store->Lookup(ids, true, floats, versions), IsOk());
  EXPECT_EQ(versions, (std::vector<uint32_t>{0, 0}));
  ASSERT_THAT(store->Update(0.1, ids, floats), IsOk());
  ASSERT_THAT(store->Update(0.1, std::span(ids).first(1), std::span(floats).first(1)), IsOk());
  ASSERT_THAT(store->Update(0.1, {}, {}), IsOk());  // no batch
  ASSERT_THAT(store->Lookup(ids, true, floats, versions), IsOk());
  EXPECT_EQ(versions, (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(store->version(), 2u);
}

// The budget refuses new rows; the store is as before and goes on with those that it has.
TEST(RowStore, OverTheBudgetNothingChanges) {
  MemoryBudget budget(size_t{200} << 10);
  const auto store = MakeStore({.dim = 16,
                                .rule = MakeRule(optim::Adagrad{}),
                                .init = MakeInit(),
                                .budget = &budget,
                                .name = "emb"});
  std::vector<int64_t> ids(500);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<float> floats(ids.size() * 16, 0.5f), before(ids.size() * 16), after(before);
  ASSERT_THAT(store->Update(0.1, ids, floats), IsOk());
  ASSERT_THAT(store->Lookup(ids, false, before), IsOk());

  std::vector<int64_t> more(3000);
  for (size_t i = 0; i < more.size(); ++i) more[i] = static_cast<int64_t>(i);  // 500 of them known
  std::vector<float> many(more.size() * 16, 0.5f);
  const auto refused = StatusIs(
      absl::StatusCode::kResourceExhausted,
      AllOf(HasSubstr("rows of table emb"), HasSubstr("204800"), HasSubstr("--memory-limit")));
  EXPECT_THAT(store->Update(0.1, more, many), refused);
  EXPECT_THAT(store->Lookup(more, true, many), refused);
  EXPECT_THAT(store->Assign(more, many), refused);
  EXPECT_EQ(store->row_count(), 500u);
  EXPECT_EQ(store->version(), 1u);
  ASSERT_THAT(store->Lookup(ids, false, after), IsOk());
  EXPECT_EQ(before, after);
  EXPECT_LE(budget.used_bytes(), budget.limit_bytes());
  EXPECT_EQ(budget.used_bytes(), store->resident_bytes());

  EXPECT_THAT(store->Lookup(more, false, many), IsOk());
  EXPECT_THAT(store->Update(0.1, ids, floats), IsOk());
  EXPECT_EQ(store->version(), 2u);
  // One new id, repeated so often that as many rows would not fit.
  std::fill(more.begin(), more.end(), 100'000);
  EXPECT_THAT(store->Update(0.1, more, many), IsOk());
  EXPECT_EQ(store->row_count(), 501u);
}

TEST(RowStore, ErasedRowsStartAnewAndTheirMemoryIsUsed) {
  MemoryBudget budget(0);
  const auto store = MakeStore({.dim = 4, .init = MakeInit(), .budget = &budget});
  std::vector<int64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<float> floats(4000, 1.0f), first(4000), again(4000);
  ASSERT_THAT(store->Lookup(ids, true, first), IsOk());
  ASSERT_THAT(store->Update(0.1, ids, floats), IsOk());
  const size_t bytes = store->resident_bytes();
  EXPECT_EQ(store->Erase(ids), 1000u);
  EXPECT_EQ(store->Erase(ids), 0u);
  EXPECT_EQ(store->row_count(), 0u);
  std::vector<uint32_t> versions(1000, 5);
  ASSERT_THAT(store->Lookup(ids, true, again, versions), IsOk());
  EXPECT_EQ(first, again);
  EXPECT_EQ(versions, std::vector<uint32_t>(1000));
  EXPECT_EQ(store->resident_bytes(), bytes);
}

TEST(RowStore, MovesShards) {
  const optim::Rule rule = MakeRule(optim::Adam{});
  const auto from = MakeStore({.dim = 3, .rule = rule, .init = MakeInit()});
  const auto to = MakeStore({.dim = 3, .rule = rule, .init = MakeInit(), .index_seed = 9});
  std::vector<int64_t> ids(3000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i);
  std::vector<float> gradients(9000, 0.25f);
  from->SetTick(12);
  ASSERT_THAT(from->Update(0.1, ids, gradients), IsOk());
  ShardSet half;
  for (size_t shard = 0; shard < kVirtualShardCount; shard += 2) half.set(shard);
  size_t moved = 0;
  ASSERT_THAT(from->ForEach(half,
                            [&](VirtualShard shard, const RowView& row) {
                              EXPECT_EQ(shard % 2, 0);
                              EXPECT_EQ(row.tick, 12u);
                              ++moved;
                              return to->Put(row);
                            }),
              IsOk());
  EXPECT_GT(moved, 1000u);
  EXPECT_LT(moved, 2000u);
  EXPECT_EQ(to->row_count(), moved);
  to->RestoreVersion(from->version());
  ASSERT_THAT(from->Update(0.1, ids, gradients), IsOk());
  ASSERT_THAT(to->Update(0.1, ids, gradients), IsOk());
  for (const int64_t id : ids) {
    if (ShardOf(id) % 2 != 0) continue;
    std::vector<float> a(3), b(3);
    std::vector<uint32_t> version_a(1), version_b(1);
    ASSERT_THAT(from->Lookup({&id, 1}, false, a, version_a), IsOk());
    ASSERT_THAT(to->Lookup({&id, 1}, false, b, version_b), IsOk());
    ASSERT_EQ(a, b);
    ASSERT_EQ(version_a, version_b);
  }
  // The first failure ends the walk.
  int calls = 0;
  EXPECT_THAT(from->ForEach(half,
                            [&](VirtualShard, const RowView&) {
                              ++calls;
                              return absl::AbortedError("enough");
                            }),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(calls, 1);
}

TEST(RowStore, SmallTablesAreSmall) {
  const auto store = MakeStore({.dim = 16, .rule = MakeRule(optim::Adagrad{})});
  std::vector<int64_t> ids(1000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  std::vector<float> rows(16'000);
  ASSERT_THAT(store->Lookup(ids, true, rows), IsOk());
  EXPECT_LE(store->resident_bytes(), 144'000u + (size_t{80} << 10));
}

TEST(RowStore, LargeRows) {
  const auto store = MakeStore({.dim = kMaxDim, .rule = MakeRule(optim::Adam{})});
  std::vector<int64_t> ids = {1, 2, 3};
  std::vector<float> gradients(3 * kMaxDim, 1.0f), rows(3 * kMaxDim);
  ASSERT_THAT(store->Update(0.5, ids, gradients), IsOk());
  ASSERT_THAT(store->Lookup(ids, false, rows), IsOk());
  for (const float weight : rows) ASSERT_NEAR(weight, -0.5f, 1e-6f);
}

TEST(RowStore, RefusesWhatDoesntFit) {
  EXPECT_THAT(RowStore::Create({.dim = 0, .name = "emb"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("table emb: rows of 0")));
  EXPECT_THAT(RowStore::Create({.dim = kMaxDim + 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65536")));
  const auto store = MakeStore({.dim = 2, .name = "emb"});
  const std::vector<int64_t> ids = {1, 2};
  std::vector<float> three(3), four(4);
  std::vector<uint32_t> one(1);
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("table emb: 3 floats"), HasSubstr("2 ids of 2")));
  EXPECT_THAT(store->Lookup(ids, true, three), refused);
  EXPECT_THAT(store->Update(0.1, ids, three), refused);
  EXPECT_THAT(store->Assign(ids, three), refused);
  EXPECT_THAT(store->Lookup(ids, true, four, one),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 versions for 2 ids")));
  EXPECT_THAT(store->Put({.id = 1, .weights = three, .slots = {}}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(store->Put({.id = 1, .weights = std::span(three).first(2), .slots = three}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sgd")));
  EXPECT_EQ(store->row_count(), 0u);
  EXPECT_EQ(store->version(), 0u);
}

}  // namespace
}  // namespace gradwire::server
