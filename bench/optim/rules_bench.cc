// One step of each rule on rows and on a block, in cache, against the loop that a first version
// would have (the formula, weight by weight, pointers that may overlap), in the same run.
#include <cmath>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "optim/rules/kernels.h"
#include "optim/rules/rule.h"

namespace gradwire::optim {
namespace {

// A step count as rows have it: small enough that every correction is computed.
constexpr float kSteps = 300;

// Rows that stay in the first-level cache together, as one row alone would measure its latency.
constexpr size_t kRows = 32;

struct Rows {
  Rows(const Rule& rule, size_t n)
      : n(n),
        slot_count(rule.SlotCount(n)),
        count(n <= 64 ? kRows : 1),
        weights(n * count, 1.0F),
        slots(slot_count * count),
        gradient(n * count) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = 0.01F * static_cast<float>(i % 17) - 0.08F;
    }
    for (size_t r = 0; r < count; ++r) rule.InitSlots(Slots(r), n);
  }
  std::span<float> Weights(size_t r) { return std::span(weights).subspan(r * n, n); }
  std::span<float> Slots(size_t r) { return std::span(slots).subspan(r * slot_count, slot_count); }
  // For Adam's: the step count is the last slot.
  void ResetCount(size_t r) {
    if (slot_count == 2 * n + 1) slots[(r + 1) * slot_count - 1] = kSteps;
  }
  std::span<const float> Gradient(size_t r) { return std::span(gradient).subspan(r * n, n); }

  size_t n, slot_count, count;
  std::vector<float> weights, slots, gradient;
};

void Report(benchmark::State& state, size_t n) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(n));
}

void RunRule(benchmark::State& state, const RuleOptions& options) {
  const Rule rule = *Rule::Create(options);
  Rows rows(rule, static_cast<size_t>(state.range(0)));
  size_t r = 0;
  for (auto _ : state) {
    rows.ResetCount(r);
    rule.Apply(1e-3, rows.Weights(r), rows.Slots(r), rows.Gradient(r));
    r = r + 1 == rows.count ? 0 : r + 1;
    benchmark::ClobberMemory();
  }
  Report(state, rows.n);
}

void RunBaseline(benchmark::State& state, const RuleOptions& options) {
  const Rule rule = *Rule::Create(options);
  const ApplyFn kernel = FindKernel(options, Isa::kBaseline);
  Rows rows(rule, static_cast<size_t>(state.range(0)));
  size_t r = 0;
  for (auto _ : state) {
    rows.ResetCount(r);
    kernel(options, 1e-3, rows.Weights(r).data(), rows.Slots(r).data(), rows.Gradient(r).data(),
           rows.n);
    r = r + 1 == rows.count ? 0 : r + 1;
    benchmark::ClobberMemory();
  }
  Report(state, rows.n);
}

using NaiveFn = void (*)(float* w, float* s, const float* g, size_t n);

void NaiveSgd(float* w, float*, const float* g, size_t n) {
  for (size_t i = 0; i < n; ++i) w[i] -= 1e-3F * g[i];
}
void NaiveMomentum(float* w, float* s, const float* g, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    s[i] = 0.9F * s[i] + g[i];
    w[i] -= 1e-3F * s[i];
  }
}
void NaiveAdagrad(float* w, float* s, const float* g, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    s[i] += g[i] * g[i];
    w[i] -= 1e-3F * g[i] / (std::sqrt(s[i]) + 1e-10F);
  }
}
void NaiveRowwise(float* w, float* s, const float* g, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) sum += g[i] * g[i];
  s[0] += sum / static_cast<float>(n);
  for (size_t i = 0; i < n; ++i) w[i] -= 1e-3F * g[i] / (std::sqrt(s[0]) + 1e-10F);
}
void NaiveAdam(float* w, float* s, const float* g, size_t n) {
  float* const v = s + n;
  const float step = s[2 * n] += 1;
  const float correction1 = 1 - std::pow(0.9F, step), correction2 = 1 - std::pow(0.999F, step);
  for (size_t i = 0; i < n; ++i) {
    s[i] = 0.9F * s[i] + 0.1F * g[i];
    v[i] = 0.999F * v[i] + 0.001F * g[i] * g[i];
    w[i] -= 1e-3F * (s[i] / correction1) / (std::sqrt(v[i] / correction2) + 1e-8F);
  }
}
void NaiveRmsProp(float* w, float* s, const float* g, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    s[i] = 0.99F * s[i] + 0.01F * g[i] * g[i];
    w[i] -= 1e-3F * g[i] / (std::sqrt(s[i]) + 1e-8F);
  }
}
void NaiveFtrl(float* w, float* s, const float* g, size_t n) {
  float* const sums = s + n;
  for (size_t i = 0; i < n; ++i) {
    const float sigma = (std::sqrt(sums[i] + g[i] * g[i]) - std::sqrt(sums[i])) / 1e-3F;
    s[i] += g[i] - sigma * w[i];
    sums[i] += g[i] * g[i];
    if (std::fabs(s[i]) <= 0.01F) {
      w[i] = 0;
    } else {
      const float sign = s[i] < 0 ? -1.0F : 1.0F;
      w[i] = -(s[i] - sign * 0.01F) / ((1 + std::sqrt(sums[i])) / 1e-3F);
    }
  }
}

void RunNaive(benchmark::State& state, const RuleOptions& options, NaiveFn naive) {
  Rows rows(*Rule::Create(options), static_cast<size_t>(state.range(0)));
  size_t r = 0;
  for (auto _ : state) {
    rows.ResetCount(r);
    naive(rows.Weights(r).data(), rows.Slots(r).data(), rows.Gradient(r).data(), rows.n);
    r = r + 1 == rows.count ? 0 : r + 1;
    benchmark::ClobberMemory();
  }
  Report(state, rows.n);
}

struct Case {
  const char* name;
  RuleOptions options;
  NaiveFn naive;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"sgd", Sgd{}, NaiveSgd},
      {"momentum", Sgd{.momentum = 0.9}, NaiveMomentum},
      {"adagrad", Adagrad{}, NaiveAdagrad},
      {"rowwise_adagrad", RowwiseAdagrad{}, NaiveRowwise},
      {"adam", Adam{}, NaiveAdam},
      {"adamw", AdamW{}, NaiveAdam},
      {"rmsprop", RmsProp{}, NaiveRmsProp},
      {"ftrl", Ftrl{.l1 = 0.01}, NaiveFtrl},
  };
  return *cases;
}

const bool registered = [] {
  for (const Case& c : Cases()) {
    for (const int64_t n : {16, 64, 256 << 10}) {
      const auto add = [&](const char* how, auto run) {
        benchmark::RegisterBenchmark(absl::StrCat(c.name, "/", how).c_str(), run)->Arg(n);
      };
      add("rule", [&c](benchmark::State& s) { RunRule(s, c.options); });
      add("baseline_isa", [&c](benchmark::State& s) { RunBaseline(s, c.options); });
      add("naive", [&c](benchmark::State& s) { RunNaive(s, c.options, c.naive); });
    }
  }
  return true;
}();

}  // namespace
}  // namespace gradwire::optim
