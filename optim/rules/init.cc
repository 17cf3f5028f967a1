#include "optim/rules/init.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "optim/rules/option_fields.h"

namespace gradwire::optim {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio

// SplitMix64's finalizer: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014, figure 16, with the constants of Stafford's variant 13.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Within (0, 1), in steps of 2^-52; both ends are excluded exactly.
double Unit(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

// Natural logarithm of a positive normal number, by basic operations alone, because libm's differs
// between versions and processors: log(m 2^k) = k log 2 + 2 artanh((m - 1) / (m + 1)), with m
// within a factor sqrt(2) of 1, where the series' first term left out is below 1e-15.
double Log(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  auto m = std::bit_cast<double>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int k = 17; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return exponent * 0.6931471805599453 + 2 * s * series;
}

// The normal distribution's quantile for p in (0, 1): Wichura, "Algorithm AS 241: the percentage
// points of the normal distribution", Applied Statistics 37 (1988), PPND7: seven digits.
double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1);
  }
  double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  double tail = 0;
  if (r <= 5) {
    r -= 1.6;
    tail = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
           ((0.12021132975 * r + 0.73700164250) * r + 1);
  } else {
    r -= 5;
    tail = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
           ((0.012258202635 * r + 0.24197894225) * r + 1);
  }
  return q < 0 ? -tail : tail;
}

constexpr double kBelowMinusTwo = 0.022750131948179195;  // of the normal distribution's mass
constexpr double kWithinTwo = 1 - 2 * kBelowMinusTwo;
constexpr double kFarthest = 8.3;  // in sigma: more than Unit() reaches

// Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks",
// AISTATS 2010, eq. 16.
double XavierBound(const InitOptions& o) { return std::sqrt(6.0 / (o.a + o.b)); }

double Value(const InitOptions& o, double unit) {
  switch (o.kind) {
    case InitKind::kConstant:
      return o.a;
    case InitKind::kUniform:
      return o.a + (o.b - o.a) * unit;
    case InitKind::kNormal:
      return o.a + o.b * NormalQuantile(unit);
    case InitKind::kTruncatedNormal:
      return o.a + o.b * std::clamp(NormalQuantile(kBelowMinusTwo + kWithinTwo * unit), -2.0, 2.0);
    case InitKind::kXavier:
      return XavierBound(o) * (2 * unit - 1);
  }
  return 0;
}

struct Names {
  const char* kind;
  const char* a;
  const char* b;  // null: it has one number
};

Names NamesOf(InitKind kind) {
  switch (kind) {
    case InitKind::kConstant:
      return {"constant", "value", nullptr};
    case InitKind::kUniform:
      return {"uniform", "low", "high"};
    case InitKind::kNormal:
      return {"normal", "mean", "stddev"};
    case InitKind::kTruncatedNormal:
      return {"truncated_normal", "mean", "stddev"};
    case InitKind::kXavier:
      return {"xavier", "fan_in", "fan_out"};
  }
  return {nullptr, nullptr, nullptr};
}

bool FitsFloat(double value) { return std::isfinite(static_cast<float>(value)); }

// What is wrong; empty where nothing is.
std::string Problem(const InitOptions& o, const Names& names) {
  if (!FitsFloat(o.a)) return absl::StrCat(names.a, " must be finite in float32");
  if (names.b != nullptr && !FitsFloat(o.b)) {
    return absl::StrCat(names.b, " must be finite in float32");
  }
  switch (o.kind) {
    case InitKind::kConstant:
      return "";
    case InitKind::kUniform:
      return o.a <= o.b ? "" : "low must not be above high";
    case InitKind::kNormal:
    case InitKind::kTruncatedNormal:
      if (o.b < 0) return "stddev must be 0 or more";
      return FitsFloat(std::fabs(o.a) + kFarthest * o.b) ? "" : "values must be finite in float32";
    case InitKind::kXavier:
      if (o.a < 0) return "fan_in must be 0 or more";
      if (o.b < 0) return "fan_out must be 0 or more";
      return o.a + o.b >= 1 ? "" : "fan_in and fan_out must be 1 or more together";
  }
  return "";
}

}  // namespace

absl::StatusOr<Initializer> Initializer::Create(const InitOptions& options, uint64_t seed,
                                                uint64_t table) {
  const Names names = NamesOf(options.kind);
  if (names.kind == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("no initializer of kind ", static_cast<int>(options.kind),
                     "; there are constant (0), uniform, normal, truncated_normal, xavier (4)"));
  }
  Initializer result;
  result.options_ = {options.kind, options.a + 0.0, names.b != nullptr ? options.b + 0.0 : 0};
  if (const std::string problem = Problem(result.options_, names); !problem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(result.ToString(), ": ", problem));
  }
  result.key_ = Mix(Mix(seed + kGolden) ^ (table * kGolden + 1));
  return result;
}

void Initializer::Fill(int64_t id, std::span<float> row) const {
  if (options_.kind == InitKind::kConstant) {
    for (float& value : row) value = static_cast<float>(options_.a);
    return;
  }
  uint64_t state = Mix(key_ ^ Mix(static_cast<uint64_t>(id) + kGolden));
  for (float& value : row) {
    state += kGolden;  // column c has state + (c + 1) golden, wherever the row begins
    value = static_cast<float>(Value(options_, Unit(Mix(state))));
  }
}

std::string Initializer::ToString() const {
  const Names names = NamesOf(options_.kind);
  if (names.kind == nullptr) return "";
  if (names.b == nullptr) return absl::StrCat(names.kind, "(", ShortestText(options_.a), ")");
  return absl::StrCat(names.kind, "(", ShortestText(options_.a), ", ", ShortestText(options_.b),
                      ")");
}

}  // namespace gradwire::optim
