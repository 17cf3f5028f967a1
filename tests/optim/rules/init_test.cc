#include "optim/rules/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/matchers.h"

namespace gradwire::optim {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Initializer Make(const InitOptions& options, uint64_t seed = 1, uint64_t table = 2) {
  const absl::StatusOr<Initializer> made = Initializer::Create(options, seed, table);
  EXPECT_THAT(made, IsOk());
  return made.value_or(Initializer());
}

std::vector<float> Row(const Initializer& initializer, int64_t id, size_t dim) {
  std::vector<float> row(dim);
  initializer.Fill(id, row);
  return row;
}

// 100 000 values: 6 250 rows of 16.
std::vector<float> Sample(const Initializer& initializer) {
  std::vector<float> all;
  for (int64_t id = 0; id < 6250; ++id) {
    const std::vector<float> row = Row(initializer, id, 16);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

struct Moments {
  double mean = 0, stddev = 0, low = 0, high = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) m.stddev += (v - m.mean) * (v - m.mean);
  m.stddev = std::sqrt(m.stddev / static_cast<double>(values.size()));
  m.low = *std::min_element(values.begin(), values.end());
  m.high = *std::max_element(values.begin(), values.end());
  return m;
}

// Largest distance between the sample's distribution and `cdf`; Kolmogorov: above 1.95 / sqrt(n),
// here 0.0062, once in a thousand samples.
template <class Cdf>
double Distance(std::vector<float> values, Cdf cdf) {
  std::sort(values.begin(), values.end());
  double distance = 0;
  const auto n = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(values[i]);
    distance =
        std::max({distance, p - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - p});
  }
  return distance;
}

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(InitTest, DefaultIsZeroAndConstantIsItsValue) {
  EXPECT_EQ(Row(Initializer(), 5, 3), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(Row(Make(Constant(0.25)), 5, 3), (std::vector<float>{0.25, 0.25, 0.25}));
}

TEST(InitTest, Uniform) {
  const std::vector<float> values = Sample(Make(Uniform(-1, 3)));
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 1, 0.02);
  EXPECT_NEAR(m.stddev, 4 / std::sqrt(12), 0.02);
  EXPECT_GE(m.low, -1);
  EXPECT_LE(m.high, 3);
  EXPECT_LT(Distance(values, [](double x) { return (x + 1) / 4; }), 0.0062);
}

TEST(InitTest, Normal) {
  const std::vector<float> values = Sample(Make(Normal(0.5, 0.1)));
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 0.5, 0.0015);
  EXPECT_NEAR(m.stddev, 0.1, 0.001);
  // Of 100 000 values about 6 are beyond 4 sigma.
  EXPECT_LT(m.low, 0.5 - 0.37);
  EXPECT_GT(m.high, 0.5 + 0.37);
  EXPECT_LT(Distance(values, [](double x) { return NormalCdf((x - 0.5) / 0.1); }), 0.0062);
}

TEST(InitTest, TruncatedNormalIsWithinTwoSigma) {
  const std::vector<float> values = Sample(Make(TruncatedNormal(1, 0.5)));
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 1, 0.006);
  // Of a normal distribution cut at two sigma: sqrt(1 - 4 phi(2) / (Phi(2) - Phi(-2))) = 0.8796.
  EXPECT_NEAR(m.stddev, 0.5 * 0.8796, 0.005);
  EXPECT_GE(m.low, 0);
  EXPECT_LE(m.high, 2);
  EXPECT_LT(Distance(values,
                     [](double x) {
                       const double below = NormalCdf(-2);
                       return (NormalCdf((x - 1) / 0.5) - below) / (1 - 2 * below);
                     }),
            0.0062);
}

TEST(InitTest, XavierIsUniformWithinItsBound) {
  const double bound = std::sqrt(6.0 / (784 + 1024));
  const std::vector<float> values = Sample(Make(Xavier(784, 1024)));
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 0, bound * 0.01);
  EXPECT_NEAR(m.stddev, std::sqrt(2.0 / (784 + 1024)), bound * 0.01);
  EXPECT_GE(m.low, -bound * 1.0001);
  EXPECT_LE(m.high, bound * 1.0001);
  EXPECT_LT(Distance(values, [&](double x) { return (x + bound) / (2 * bound); }), 0.0062);
}

// A server that has only some rows, in another order, twice, or with fewer columns has the same
// values.
TEST(InitTest, AValueDependsOnItsPlaceAlone) {
  const Initializer one = Make(Normal(0, 1)), other = Make(Normal(0, 1));
  std::vector<std::vector<float>> forward;
  for (int64_t id = -50; id < 50; ++id) forward.push_back(Row(one, id, 16));
  for (int64_t id = 49; id >= -50; id -= 3) {
    EXPECT_EQ(Row(other, id, 16), forward[static_cast<size_t>(id + 50)]) << id;
    const std::vector<float> narrow = Row(other, id, 5);
    EXPECT_TRUE(
        std::equal(narrow.begin(), narrow.end(), forward[static_cast<size_t>(id + 50)].begin()));
  }
}

TEST(InitTest, SeedTableIdAndColumnAllCount) {
  const std::vector<float> base = Row(Make(Uniform(0, 1), 1, 2), 3, 16);
  const std::vector<float> others[] = {
      Row(Make(Uniform(0, 1), 2, 2), 3, 16),  Row(Make(Uniform(0, 1), 1, 3), 3, 16),
      Row(Make(Uniform(0, 1), 2, 1), 3, 16),  Row(Make(Uniform(0, 1), 1, 2), 4, 16),
      Row(Make(Uniform(0, 1), 1, 2), -3, 16), Row(Make(Uniform(0, 1), 3, 2), 1, 16)};
  for (const std::vector<float>& other : others) {
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(std::count(other.begin(), other.end(), base[i]), 0) << i;
    }
  }
}

// Neighbours in every direction are uncorrelated: of 100 000 products of independent values the
// mean is within 4 / sqrt(100 000).
TEST(InitTest, NeighboursAreUncorrelated) {
  const std::vector<float> a = Sample(Make(Normal(0, 1), 1, 2));
  const auto correlation = [&](const std::vector<float>& b, size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i + lag];
    return std::fabs(sum / static_cast<double>(a.size() - lag));
  };
  EXPECT_LT(correlation(a, 1), 0.0127);   // columns
  EXPECT_LT(correlation(a, 16), 0.0127);  // ids
  EXPECT_LT(correlation(Sample(Make(Normal(0, 1), 1, 3)), 0), 0.0127);
  EXPECT_LT(correlation(Sample(Make(Normal(0, 1), 2, 2)), 0), 0.0127);
}

// A change of these changes every model that anyone reproduces. Checked against an implementation
// of its own with the quantile of Python's `statistics`.
TEST(InitTest, GoldenValues) {
  const struct {
    InitOptions options;
    std::vector<float> row;
  } golden[] = {
      {Uniform(0, 1), {0.747281075F, 0.475243747F, 0.796437919F, 0.00345848664F}},
      {Normal(0, 1), {0.665958107F, -0.0620946437F, 0.828965127F, -2.7008152F}},
      {TruncatedNormal(0, 1), {0.631152868F, -0.0592659302F, 0.782194734F, -1.94228601F}},
      {Xavier(3, 3), {0.494562119F, -0.0495125353F, 0.592875898F, -0.993083F}},
  };
  for (const auto& g : golden) {
    EXPECT_EQ(Row(Make(g.options, 42, 7), 123456789, 4), g.row) << Make(g.options).ToString();
  }
  EXPECT_EQ(Row(Make(Uniform(0, 1), 42, 7), std::numeric_limits<int64_t>::min(), 1),
            std::vector<float>{0.587725103F});
}

TEST(InitTest, Texts) {
  EXPECT_EQ(Initializer().ToString(), "constant(0)");
  EXPECT_EQ(Make(Uniform(-0.5, 0.5)).ToString(), "uniform(-0.5, 0.5)");
  EXPECT_EQ(Make(Normal(0, 0.1)).ToString(), "normal(0, 0.1)");
  EXPECT_EQ(Make(TruncatedNormal(0, 0.1)).ToString(), "truncated_normal(0, 0.1)");
  EXPECT_EQ(Make(Xavier(3, 4)).ToString(), "xavier(3, 4)");
}

TEST(InitTest, WhatIsWrongIsNamed) {
  const double inf = std::numeric_limits<double>::infinity();
  const struct {
    InitOptions options;
    const char* what;
    const char* why;
  } bad[] = {
      {Constant(inf), "constant(inf)", "value must be finite"},
      {Constant(1e39), "constant(1e+39)", "value must be finite in float32"},
      {Uniform(1, 0), "uniform(1, 0)", "low must not be above high"},
      {Uniform(-inf, 0), "uniform(-inf, 0)", "low must be finite"},
      {Normal(0, -1), "normal(0, -1)", "stddev must be 0 or more"},
      {Normal(0, std::nan("")), "normal(0, nan)", "stddev must be finite"},
      {Normal(0, 3e38), "normal(0, 3e+38)", "values must be finite in float32"},
      {TruncatedNormal(0, -1), "truncated_normal(0, -1)", "stddev must be 0 or more"},
      {Xavier(-1, 3), "xavier(-1, 3)", "fan_in must be 0 or more"},
      {Xavier(0, 0), "xavier(0, 0)", "1 or more together"},
      {{static_cast<InitKind>(9), 0, 0}, "kind 9", "truncated_normal"},
  };
  for (const auto& b : bad) {
    EXPECT_THAT(Initializer::Create(b.options, 1, 2),
                StatusIs(kInvalid, AllOf(HasSubstr(b.what), HasSubstr(b.why))));
  }
}

}  // namespace
}  // namespace gradwire::optim
