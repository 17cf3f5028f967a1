// The rules that libtorch doesn't have against their papers' equations, written in double precision
// as the papers have them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "optim/rules/rule.h"
#include "rpc/base/rng.h"
#include "tests/support/matchers.h"

namespace gradwire::optim {
namespace {

using ::gradwire::testing::IsOk;

// Sums of some 60 float32 roundings; weights and sums are of size 1.
constexpr double kTolerance = 60 * 6e-8 * 4;

struct Ours {
  Ours(const RuleOptions& options, std::vector<float> initial) : weights(std::move(initial)) {
    const absl::StatusOr<Rule> created = Rule::Create(options);
    EXPECT_THAT(created, IsOk());
    rule = *created;
    slots.resize(rule.SlotCount(weights.size()));
    rule.InitSlots(slots, weights.size());
  }
  void Step(const std::vector<float>& gradient) { rule.Apply(rule.lr(), weights, slots, gradient); }
  Rule rule;
  std::vector<float> weights, slots;
};

std::vector<float> RandomFloats(Rng& rng, size_t n) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(2 * rng.Uniform() - 1);
  return values;
}

// H += (1 / D) sum g_j^2;  w_i -= eta g_i / (sqrt(H) + eps).
void ExpectRowwiseAdagrad(const RowwiseAdagrad& o, size_t dim) {
  SeededRng rng(dim);
  Ours ours(o, RandomFloats(rng, dim));
  std::vector<double> w(ours.weights.begin(), ours.weights.end());
  double sum = static_cast<float>(o.initial_accumulator);
  for (int step = 0; step < 50; ++step) {
    const std::vector<float> gradient = RandomFloats(rng, dim);
    ours.Step(gradient);
    double squares = 0;
    for (const double g : gradient) squares += g * g;
    sum += squares / static_cast<double>(dim);
    for (size_t i = 0; i < dim; ++i) w[i] -= o.lr * gradient[i] / (std::sqrt(sum) + o.eps);
  }
  EXPECT_NEAR(ours.slots.back(), sum, sum * kTolerance);
  for (size_t i = 0; i < dim; ++i) EXPECT_NEAR(ours.weights[i], w[i], kTolerance) << i;
}

TEST(PapersTest, RowwiseAdagrad) {
  for (const size_t dim : {1, 2, 7, 8, 9, 16, 33, 64, 200}) {
    SCOPED_TRACE(dim);
    ExpectRowwiseAdagrad({.lr = 0.05}, dim);
    ExpectRowwiseAdagrad({.lr = 0.05, .initial_accumulator = 0.1, .eps = 0}, dim);
    ExpectRowwiseAdagrad({.lr = 0.05, .initial_accumulator = 2, .eps = 1e-3}, dim);
  }
}

TEST(PapersTest, RowwiseAdagradWithoutEpsilonWaitsForAGradient) {
  Ours ours(RowwiseAdagrad{.eps = 0}, {1, 2});
  ours.Step({0, 0});
  EXPECT_EQ(ours.weights, (std::vector<float>{1, 2}));
  ours.Step({3, 4});  // mean of the squares: 12.5
  EXPECT_NEAR(ours.weights[0], 1 - 0.01 * 3 / std::sqrt(12.5), 1e-6);
}

// One coordinate, as algorithm 1 has it: the weight of round t from z and n of round t - 1.
struct FtrlCoordinate {
  double z = 0, n = 0;

  double Weight(const Ftrl& o) const {
    if (std::fabs(z) <= o.l1) return 0;
    const double sign = z < 0 ? -1 : 1;
    return -(z - sign * o.l1) / ((o.beta + std::sqrt(n)) / o.lr + o.l2);
  }
  void Update(const Ftrl& o, double g, double weight) {
    const double sigma = (std::sqrt(n + g * g) - std::sqrt(n)) / o.lr;
    z += g - sigma * weight;
    n += g * g;
  }
};

// Returns how many weights are zero in the end.
size_t ExpectFtrl(const Ftrl& o) {
  constexpr size_t kCount = 100;
  SeededRng rng(7);
  Ours ours(o, std::vector<float>(kCount));
  std::vector<FtrlCoordinate> paper(kCount);
  for (int step = 0; step < 50; ++step) {
    const std::vector<float> gradient = RandomFloats(rng, kCount);
    ours.Step(gradient);
    for (size_t i = 0; i < kCount; ++i) paper[i].Update(o, gradient[i], paper[i].Weight(o));
  }
  size_t zeros = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double w = paper[i].Weight(o);
    // z has 50 terms, some of them divided by the rate.
    EXPECT_NEAR(ours.slots[i], paper[i].z, 50 * 6e-8 / o.lr) << i;
    EXPECT_NEAR(ours.slots[kCount + i], paper[i].n, paper[i].n * kTolerance) << i;
    EXPECT_NEAR(ours.weights[i], w, kTolerance) << i;
    EXPECT_EQ(ours.weights[i] == 0, w == 0) << i;
    zeros += ours.weights[i] == 0 ? 1 : 0;
  }
  return zeros;
}

TEST(PapersTest, Ftrl) {
  EXPECT_EQ(ExpectFtrl({}), 0U);
  EXPECT_EQ(ExpectFtrl({.lr = 0.5, .beta = 0, .l2 = 0.5}), 0U);
}

TEST(PapersTest, FtrlWithL1IsSparse) {
  const size_t few = ExpectFtrl({.lr = 0.1, .l1 = 1});
  const size_t many = ExpectFtrl({.lr = 0.1, .l1 = 4, .l2 = 0.1});
  EXPECT_GT(few, 5U);
  EXPECT_GT(many, few);
  EXPECT_LT(many, 100U);
}

// The first step's weight depends on the gradient alone: z = g - sigma w counts what the weight
// was.
TEST(PapersTest, FtrlFromAnotherWeightThanZero) {
  const Ftrl o{.lr = 0.5, .beta = 1};
  Ours ours(o, {0.25F});
  ours.Step({2});
  const double z = 2 - (2 / 0.5) * 0.25;
  EXPECT_NEAR(ours.weights[0], -z / ((1 + 2) / 0.5), 1e-6);
}

}  // namespace
}  // namespace gradwire::optim
