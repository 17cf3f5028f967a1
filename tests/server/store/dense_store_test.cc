#include "server/store/dense_store.h"

#include <gtest/gtest.h>

#include <vector>

#include "rpc/base/rng.h"
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

std::vector<float> RandomFloats(SeededRng& rng, size_t count) {
  std::vector<float> floats(count);
  for (float& x : floats) x = static_cast<float>(rng.Uniform() - 0.5);
  return floats;
}

// Blocks of two servers, trained apart, are bit for bit what the rule makes of the whole tensor.
TEST(DenseStore, TrainsAsTheRuleDoes) {
  const std::vector<optim::RuleOptions> rules = {
      optim::Sgd{}, optim::Sgd{.momentum = 0.9, .nesterov = true},
      optim::Adagrad{.initial_accumulator = 0.1}, optim::Adam{}, optim::Ftrl{}};
  const uint64_t kElements = 5 * kMinBlockElements + 3;
  for (const optim::RuleOptions& options : rules) {
    const optim::Rule rule = MakeRule(options);
    SCOPED_TRACE(rule.ToString());
    SeededRng rng(1);
    std::vector<float> weights = RandomFloats(rng, kElements);
    std::vector<float> slots(rule.SlotCount(kElements));
    rule.InitSlots(slots, kElements);
    const auto layout = DenseLayout::Create(std::vector<uint64_t>{kElements}, 2);
    ASSERT_TRUE(layout.ok());
    std::vector<std::unique_ptr<DenseStore>> stores;
    for (size_t server = 0; server < 2; ++server) {
      auto store = DenseStore::Create({.rule = rule}, *layout, server);
      ASSERT_TRUE(store.ok()) << store.status();
      EXPECT_GT((*store)->element_count(), 0u);
      for (const uint32_t number : (*store)->numbers()) {
        const DenseBlockSpec& spec = layout->blocks()[number];
        ASSERT_THAT((*store)->Find(number)->Assign({&weights[spec.offset], spec.count}), IsOk());
      }
      stores.push_back(*std::move(store));
    }
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> gradient = RandomFloats(rng, kElements);
      rule.Apply(0.1, weights, slots, gradient);
      for (const auto& store : stores) {
        for (const uint32_t number : store->numbers()) {
          const DenseBlockSpec& spec = layout->blocks()[number];
          ASSERT_THAT(store->Find(number)->Apply(0.1, {&gradient[spec.offset], spec.count}),
                      IsOk());
        }
      }
    }
    for (uint32_t number = 0; number < layout->blocks().size(); ++number) {
      const DenseBlockSpec& spec = layout->blocks()[number];
      const DenseBlock* block = stores[spec.server]->Find(number);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(stores[1 - spec.server]->Find(number), nullptr);
      std::vector<float> copy(spec.count);
      ASSERT_THAT(block->CopyTo(copy), IsOk());
      EXPECT_EQ(copy,
                std::vector<float>(&weights[spec.offset], &weights[spec.offset] + spec.count));
      EXPECT_EQ(block->version(), 4u);
    }
  }
}

TEST(DenseStore, StartsWithZeroesAndTheRulesSlots) {
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{10, 0, 20}, 1);
  auto store = DenseStore::Create({.rule = MakeRule(optim::Adagrad{.initial_accumulator = 0.5})},
                                  *layout, 0);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_EQ((*store)->numbers().size(), 2u);
  EXPECT_EQ((*store)->Find(2), nullptr);
  const DenseBlock* block = (*store)->Find(1);
  EXPECT_EQ(block->count(), 20u);
  EXPECT_EQ(block->version(), 0u);
  for (const float weight : block->weights()) EXPECT_EQ(weight, 0);
  for (const float slot : block->slots()) EXPECT_EQ(slot, 0.5f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->slots().data()) % 64, 0u);
}

TEST(DenseStore, RestoresABlock) {
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{3}, 1);
  auto store = DenseStore::Create({.rule = MakeRule(optim::Adagrad{})}, *layout, 0);
  ASSERT_TRUE(store.ok());
  DenseBlock* block = (*store)->Find(0);
  const std::vector<float> weights = {1, 2, 3}, slots = {4, 5, 6};
  ASSERT_THAT(block->Restore(weights, slots, 99), IsOk());
  EXPECT_EQ(block->version(), 99u);
  EXPECT_EQ(std::vector<float>(block->slots().begin(), block->slots().end()), slots);
  EXPECT_THAT(block->Restore(weights, weights.empty() ? slots : std::span(slots).first(2), 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("slots of 2")));
}

TEST(DenseStore, RefusesWrongSizes) {
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{3}, 1);
  auto store = DenseStore::Create({}, *layout, 0);
  ASSERT_TRUE(store.ok());
  DenseBlock* block = (*store)->Find(0);
  std::vector<float> two(2);
  EXPECT_THAT(block->Apply(0.1, two), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr("2 floats"), HasSubstr("of 3"))));
  EXPECT_THAT(block->Assign(two), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(block->CopyTo(two), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(block->version(), 0u);
}

TEST(DenseStore, RefusesARuleForRows) {
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{3}, 1);
  EXPECT_THAT(
      DenseStore::Create({.rule = MakeRule(optim::RowwiseAdagrad{}), .name = "w"}, *layout, 0),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("table w"), HasSubstr("rows alone"))));
  EXPECT_THAT(DenseStore::Create({}, *layout, 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(DenseStore, TakesAllOfTheBudgetOrNothing) {
  MemoryBudget budget(size_t{1} << 20);
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{size_t{1} << 18, 1}, 1);
  EXPECT_THAT(DenseStore::Create({.budget = &budget, .name = "w"}, *layout, 0),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("blocks of table w")));
  EXPECT_EQ(budget.used_bytes(), 0u);
  const auto fits = DenseLayout::Create(std::vector<uint64_t>{size_t{1} << 17}, 1);
  auto store = DenseStore::Create({.budget = &budget}, *fits, 0);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(budget.used_bytes(), (*store)->resident_bytes());
  store->reset();
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace gradwire::server
