#include "optim/rules/rule.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "optim/rules/kernels.h"
#include "optim/rules/steps.h"
#include "rpc/base/rng.h"
#include "tests/support/matchers.h"

namespace gradwire::optim {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Rule Make(const RuleOptions& options) {
  const absl::StatusOr<Rule> rule = Rule::Create(options);
  EXPECT_THAT(rule, IsOk());
  return rule.value_or(Rule());
}

// One of each kernel.
std::vector<RuleOptions> OneOfEach() {
  return {Sgd{.lr = 0.1},
          Sgd{.lr = 0.1, .weight_decay = 0.1},
          Sgd{.lr = 0.1, .momentum = 0.9},
          Sgd{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1},
          Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true},
          Adagrad{},
          Adagrad{.lr = 0.1, .weight_decay = 0.1, .initial_accumulator = 0.1, .eps = 0},
          RowwiseAdagrad{},
          RowwiseAdagrad{.lr = 0.1, .initial_accumulator = 0.1, .eps = 0},
          Adam{},
          Adam{.weight_decay = 0.1},
          AdamW{},
          AdamW{.weight_decay = 0},
          RmsProp{},
          RmsProp{.weight_decay = 0.1},
          RmsProp{.momentum = 0.9},
          RmsProp{.centered = true},
          RmsProp{.weight_decay = 0.1, .momentum = 0.9, .centered = true},
          Ftrl{},
          Ftrl{.lr = 0.05, .beta = 2, .l1 = 0.01, .l2 = 0.1}};
}

std::vector<float> RandomFloats(Rng& rng, size_t n, double scale) {
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(scale * (2 * rng.Uniform() - 1));
  return values;
}

// Weights with their slots.
struct State {
  State(const Rule& rule, std::vector<float> initial)
      : weights(std::move(initial)), slots(rule.SlotCount(weights.size())) {
    rule.InitSlots(slots, weights.size());
  }
  std::vector<float> weights, slots;
};

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

TEST(RuleTest, EveryOptionThatIsOutOfItsRangeIsNamed) {
  const struct {
    RuleOptions options;
    const char* rule;
    const char* option;
  } bad[] = {
      {Sgd{.lr = -1}, "sgd: lr is -1", "0 or more"},
      {Sgd{.lr = kNan}, "sgd: lr is nan", "finite"},
      {Sgd{.lr = 1e39}, "sgd: lr is 1e+39", "finite in float32"},
      {Sgd{.momentum = -0.1}, "sgd: momentum is -0.1", "0 or more"},
      {Sgd{.momentum = 0.9, .dampening = 1.5}, "sgd: dampening is 1.5", "from 0 to 1"},
      {Sgd{.weight_decay = kInfinity}, "sgd: weight_decay is inf", "finite"},
      {Sgd{.nesterov = true}, "sgd: nesterov", "momentum above 0"},
      {Sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true}, "sgd: nesterov", "no dampening"},
      {Adagrad{.lr = -1}, "adagrad: lr", "0 or more"},
      {Adagrad{.weight_decay = -1}, "adagrad: weight_decay", "0 or more"},
      {Adagrad{.initial_accumulator = -1}, "adagrad: initial_accumulator", "0 or more"},
      {Adagrad{.eps = -1e-9}, "adagrad: eps is -1e-09", "0 or more"},
      {Adagrad{.eps = 1e-60}, "adagrad: eps or initial_accumulator", "above 0"},
      {RowwiseAdagrad{.lr = -1}, "rowwise_adagrad: lr", "0 or more"},
      {RowwiseAdagrad{.initial_accumulator = kNan}, "rowwise_adagrad: initial_acc", "finite"},
      {RowwiseAdagrad{.eps = -1}, "rowwise_adagrad: eps", "0 or more"},
      {Adam{.lr = -1}, "adam: lr", "0 or more"},
      {Adam{.beta1 = 1}, "adam: beta1 is 1", "below 1"},
      {Adam{.beta2 = 0.99999999999}, "adam: beta2 is 0.99999999999", "below 1 in float32"},
      {Adam{.eps = 0}, "adam: eps is 0", "above 0"},
      {Adam{.weight_decay = -1}, "adam: weight_decay", "0 or more"},
      {AdamW{.lr = kInfinity}, "adamw: lr", "finite"},
      {AdamW{.beta1 = -0.5}, "adamw: beta1 is -0.5", "from 0 to below 1"},
      {AdamW{.beta2 = 2}, "adamw: beta2", "below 1"},
      {AdamW{.eps = 1e-50}, "adamw: eps is 1e-50", "above 0 in float32"},
      {AdamW{.weight_decay = -1}, "adamw: weight_decay", "0 or more"},
      {RmsProp{.lr = -1}, "rmsprop: lr", "0 or more"},
      {RmsProp{.alpha = 1}, "rmsprop: alpha", "below 1"},
      {RmsProp{.eps = 0}, "rmsprop: eps", "above 0"},
      {RmsProp{.weight_decay = -1}, "rmsprop: weight_decay", "0 or more"},
      {RmsProp{.momentum = -1}, "rmsprop: momentum", "0 or more"},
      {Ftrl{.lr = 0}, "ftrl: lr is 0", "above 0"},
      {Ftrl{.beta = -1}, "ftrl: beta", "0 or more"},
      {Ftrl{.l1 = -1}, "ftrl: l1", "0 or more"},
      {Ftrl{.l2 = -1}, "ftrl: l2", "0 or more"},
  };
  for (const auto& b : bad) {
    EXPECT_THAT(Rule::Create(b.options),
                StatusIs(kInvalid, AllOf(HasSubstr(b.rule), HasSubstr(b.option))));
  }
}

TEST(RuleTest, NamesComeBack) {
  for (const RuleOptions& options : OneOfEach()) {
    const Rule rule = Make(options);
    const absl::StatusOr<Rule> back = Rule::FromNamed(rule.ToNamed());
    ASSERT_THAT(back, IsOk()) << rule.ToString();
    EXPECT_EQ(back->ToString(), rule.ToString());
    EXPECT_EQ(back->options().index(), options.index());
    EXPECT_EQ(back->lr(), rule.lr());
  }
}

TEST(RuleTest, NamesInTheOrderOfTheStructs) {
  const NamedRule named = Make(Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}).ToNamed();
  EXPECT_EQ(named.name, "sgd");
  EXPECT_THAT(named.options,
              ElementsAre(Pair("lr", 0.1), Pair("momentum", 0.9), Pair("dampening", 0),
                          Pair("weight_decay", 0), Pair("nesterov", 1)));
}

TEST(RuleTest, OptionsLeftOutHaveTheirDefaults) {
  const absl::StatusOr<Rule> rule = Rule::FromNamed({"adam", {{"beta2", 0.99}}});
  ASSERT_THAT(rule, IsOk());
  EXPECT_EQ(rule->ToString(), "adam(lr=0.001, beta1=0.9, beta2=0.99, eps=1e-08, weight_decay=0)");
  EXPECT_EQ(Rule::FromNamed({"sgd", {}})->ToString(), Rule().ToString());
}

TEST(RuleTest, TextsDifferWhereRulesDo) {
  EXPECT_NE(Make(Sgd{.lr = 0.1}).ToString(), Make(Sgd{.lr = std::nextafter(0.1, 1)}).ToString());
  EXPECT_EQ(Make(Sgd{.lr = 0.0}).ToString(), Make(Sgd{.lr = -0.0}).ToString());
}

TEST(RuleTest, WhatNamesDontSayIsRefused) {
  EXPECT_THAT(Rule::FromNamed({"sdg", {}}),
              StatusIs(kInvalid, AllOf(HasSubstr("\"sdg\""), HasSubstr("sgd, adagrad, row"))));
  EXPECT_THAT(Rule::FromNamed({"ftrl", {{"alpha", 1}}}),
              StatusIs(kInvalid, AllOf(HasSubstr("\"alpha\""), HasSubstr("lr, beta, l1, l2"))));
  EXPECT_THAT(Rule::FromNamed({"sgd", {{"lr", 1}, {"lr", 1}}}),
              StatusIs(kInvalid, HasSubstr("lr is given twice")));
  EXPECT_THAT(Rule::FromNamed({"sgd", {{"nesterov", 0.5}}}),
              StatusIs(kInvalid, HasSubstr("nesterov is 0.5, but must be 0 or 1")));
  EXPECT_THAT(Rule::FromNamed({"adam", {{"eps", 0}}}), StatusIs(kInvalid, HasSubstr("adam: eps")));
}

TEST(RuleTest, AForeignNameIsShortenedAndEscaped) {
  const absl::Status status = Rule::FromNamed({std::string(100'000, '\n'), {}}).status();
  EXPECT_THAT(status, StatusIs(kInvalid, HasSubstr("\\n\\n")));
  EXPECT_LT(status.message().size(), 400U);
}

TEST(RuleTest, SlotCounts) {
  const struct {
    RuleOptions options;
    size_t count;
  } cases[] = {{Sgd{}, 0},
               {Sgd{.dampening = 0.5}, 0},
               {Sgd{.momentum = 0.9}, 16},
               {Sgd{.momentum = 0.9, .dampening = 0.5}, 17},
               {Adagrad{}, 16},
               {RowwiseAdagrad{}, 1},
               {Adam{}, 33},
               {AdamW{}, 33},
               {RmsProp{}, 16},
               {RmsProp{.centered = true}, 32},
               {RmsProp{.momentum = 0.9}, 32},
               {RmsProp{.momentum = 0.9, .centered = true}, 48},
               {Ftrl{}, 32}};
  for (const auto& c : cases) {
    EXPECT_EQ(Make(c.options).SlotCount(16), c.count) << Make(c.options).ToString();
  }
}

TEST(RuleTest, SlotsBeginWithTheAccumulatorElseZero) {
  for (const RuleOptions& options :
       {RuleOptions(Adagrad{.initial_accumulator = 0.25}),
        RuleOptions(RowwiseAdagrad{.initial_accumulator = 0.25}), RuleOptions(Adam{})}) {
    const Rule rule = Make(options);
    std::vector<float> slots(rule.SlotCount(5), 7.0F);
    rule.InitSlots(slots, 5);
    const float expected = std::holds_alternative<Adam>(options) ? 0.0F : 0.25F;
    for (const float s : slots) EXPECT_EQ(s, expected);
  }
}

TEST(RuleTest, TheRateOfTheStepCounts) {
  const Rule rule = Make(Sgd{.lr = 100});
  State state(rule, {1, 2});
  rule.Apply(0.5, state.weights, state.slots, std::vector<float>{1, -1});
  EXPECT_THAT(state.weights, ElementsAre(0.5F, 2.5F));
}

// Vectors of another width, remainders of every length, and where the row lies in memory.
TEST(RuleTest, SameBitsWhateverTheVectorWidth) {
  SeededRng rng(1);
  for (const RuleOptions& options : OneOfEach()) {
    const Rule rule = Make(options);
    SCOPED_TRACE(rule.ToString());
    const ApplyFn baseline = FindKernel(options, Isa::kBaseline);
    for (size_t n = 0; n <= 67; ++n) {
      State wide(rule, RandomFloats(rng, n, 1));
      State narrow = wide;
      State shifted = wide;
      shifted.weights.insert(shifted.weights.begin(), 0.0F);
      for (int step = 0; step < 4; ++step) {
        const std::vector<float> gradient = RandomFloats(rng, n, 1);
        rule.Apply(0.01, wide.weights, wide.slots, gradient);
        baseline(options, 0.01, narrow.weights.data(), narrow.slots.data(), gradient.data(), n);
        rule.Apply(0.01, std::span(shifted.weights).subspan(1), shifted.slots, gradient);
      }
      ASSERT_EQ(Bits(wide.weights), Bits(narrow.weights)) << n;
      ASSERT_EQ(Bits(wide.slots), Bits(narrow.slots)) << n;
      ASSERT_EQ(Bits(wide.weights), Bits(std::span(shifted.weights).subspan(1))) << n;
    }
  }
}

TEST(RuleTest, ADenseTensorMayBeCutAnyhow) {
  SeededRng rng(2);
  for (const RuleOptions& options : OneOfEach()) {
    if (std::holds_alternative<RowwiseAdagrad>(options)) continue;  // a rule for rows alone
    const Rule rule = Make(options);
    const std::vector<float> initial = RandomFloats(rng, 100, 1);
    State whole(rule, initial);
    State left(rule, {initial.begin(), initial.begin() + 37});
    State right(rule, {initial.begin() + 37, initial.end()});
    for (int step = 0; step < 10; ++step) {
      const std::vector<float> gradient = RandomFloats(rng, 100, 1);
      rule.Apply(0.01, whole.weights, whole.slots, gradient);
      rule.Apply(0.01, left.weights, left.slots, std::span(gradient).first(37));
      rule.Apply(0.01, right.weights, right.slots, std::span(gradient).subspan(37));
    }
    left.weights.insert(left.weights.end(), right.weights.begin(), right.weights.end());
    EXPECT_EQ(Bits(whole.weights), Bits(left.weights)) << rule.ToString();
  }
}

TEST(RuleTest, AdamsStepCountIsTheLastSlotAndStandsStillInTheEnd) {
  for (const RuleOptions& options : {RuleOptions(Adam{}), RuleOptions(AdamW{})}) {
    const Rule rule = Make(options);
    State state(rule, {1, 2, 3});
    for (int i = 0; i < 3; ++i) {
      rule.Apply(0.01, state.weights, state.slots, std::vector<float>(3, 0.5F));
    }
    EXPECT_EQ(state.slots.back(), 3.0F);
    state.slots.back() = 0x1p24F;
    rule.Apply(0.01, state.weights, state.slots, std::vector<float>(3, 0.5F));
    EXPECT_EQ(state.slots.back(), 0x1p24F);
    EXPECT_TRUE(std::isfinite(state.weights[0]));
  }
}

TEST(RuleTest, BiasCorrectionIsThePower) {
  for (const double beta : {0.0, 0.5, 0.9, 0.999, 0.999999}) {
    for (const double count :
         {1.0, 2.0, 3.0, 10.0, 375.0, 4321.0, 37'499.0, 37'501.0, 16777216.0}) {
      const auto exact = static_cast<double>(1 - std::pow(static_cast<long double>(beta), count));
      EXPECT_NEAR(BiasCorrection(beta, count), exact, 2e-16 * count) << beta << " " << count;
    }
  }
}

// Squares and the square of the mean of equal gradients differ by rounding alone, in either
// direction.
TEST(RuleTest, CenteredRmsPropTakesNoRootBelowZero) {
  const Rule rule = Make(RmsProp{.centered = true});
  for (int k = 1; k < 200; ++k) {
    State state(rule, {0.0F});
    const std::vector<float> gradient = {0.01F * static_cast<float>(k)};
    for (int i = 0; i < 2000; ++i) rule.Apply(1e-12, state.weights, state.slots, gradient);
    EXPECT_TRUE(std::isfinite(state.weights[0])) << gradient[0];
  }
}

TEST(RuleTest, ZeroGradientsLeaveNumbers) {
  for (const RuleOptions& options : OneOfEach()) {
    const Rule rule = Make(options);
    State state(rule, {1, -1, 0, 2});
    for (int i = 0; i < 3; ++i) {
      rule.Apply(0.01, state.weights, state.slots, std::vector<float>(4, 0.0F));
    }
    for (const float w : state.weights) EXPECT_TRUE(std::isfinite(w)) << rule.ToString();
    for (const float s : state.slots) EXPECT_TRUE(std::isfinite(s)) << rule.ToString();
  }
}

TEST(RuleTest, AZeroRateLeavesNumbers) {
  for (const RuleOptions& options : OneOfEach()) {
    const Rule rule = Make(options);
    State state(rule, {1, -1, 0, 2});
    for (int i = 0; i < 3; ++i) {
      rule.Apply(0, state.weights, state.slots, std::vector<float>{1, 0, -1, 0.5});
    }
    for (const float w : state.weights) EXPECT_TRUE(std::isfinite(w)) << rule.ToString();
    EXPECT_THAT(state.weights, ElementsAre(1, -1, 0, 2)) << rule.ToString();
  }
}

}  // namespace
}  // namespace gradwire::optim
