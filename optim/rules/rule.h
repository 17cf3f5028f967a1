// Rule: one optimizer's update of a span of weights; what a table of the parameter server runs.
//
// Options are those of torch.optim, names, defaults and formulas; each kernel's source is at the
// kernel. A Rule is a value that knows how much state ("slots") its weights need and how one
// gradient changes both. State lives beside its weights: `SlotCount(n)` floats for n weights; first
// arrays [n], then the row's scalars (a step count).
// "Lazy": a row without a gradient doesn't change, and its step count stands still.
//
// Shapes:        weights, gradient: float32 [n]; slots: float32 [SlotCount(n)]. A row of a sparse
//                table, or a block of a dense tensor; the result doesn't depend on how a dense
//                tensor is cut, except for kRowwiseAdagrad, which is a rule for rows alone.
// Arithmetic:    float32, in one order, without fused multiply-add: the same bits on every machine.
// Errors:        INVALID_ARGUMENT naming the rule and the option.
// Thread-safety: values; Apply is const and works on what it is given.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire::optim {

// torch.optim.SGD.
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// torch.optim.Adagrad.
struct Adagrad {
  double lr = 1e-2;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double eps = 1e-10;
};

// One sum of squares a row, their mean over the row (FBGEMM's EXACT_ROWWISE_ADAGRAD). Rows alone.
struct RowwiseAdagrad {
  double lr = 1e-2;
  double initial_accumulator = 0;
  double eps = 1e-10;
};

// torch.optim.Adam; the step count is the row's own.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// torch.optim.AdamW: weight decay apart from the gradient.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

// torch.optim.RMSprop.
struct RmsProp {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

// FTRL-Proximal. A weight is a function of its slots alone, so the first step forgets what it was
// before, also where the gradient is zero: tables begin with zeros. McMahan et al., "Ad Click
// Prediction: a View from the Trenches", KDD 2013, algorithm 1. `lr` is the paper's alpha.
struct Ftrl {
  double lr = 0.1;
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
};

using RuleOptions = std::variant<Sgd, Adagrad, RowwiseAdagrad, Adam, AdamW, RmsProp, Ftrl>;

// A rule as it travels and as a flag says it: a name, and options by name (flags as 0 or 1).
struct NamedRule {
  std::string name;  // "sgd", "adagrad", "rowwise_adagrad", "adam", "adamw", "rmsprop", "ftrl"
  std::vector<std::pair<std::string, double>> options;
};

class Rule {
 public:
  // Default: SGD with its defaults.
  Rule() = default;
  // INVALID_ARGUMENT: an option that is negative, not finite or out of its range.
  static absl::StatusOr<Rule> Create(const RuleOptions& options);
  // The same by names; options that are missing have their defaults. INVALID_ARGUMENT: an unknown
  // rule or option, with those that there are.
  static absl::StatusOr<Rule> FromNamed(const NamedRule& named);

  // All options, in the order of the structs.
  NamedRule ToNamed() const;
  // "sgd(lr=0.1, momentum=0, …)": for messages; two rules are the same if their texts are.
  std::string ToString() const;
  const RuleOptions& options() const { return options_; }
  // The learning rate it was created with; Apply takes today's.
  double lr() const;

  // Floats of state beside `n` weights. Count of floats.
  size_t SlotCount(size_t n) const;
  // Writes the state of weights that had no gradient yet. slots: [SlotCount(n)].
  void InitSlots(std::span<float> slots, size_t n) const;

  // One step. weights [n], slots [SlotCount(n)], gradient [n]; no two overlap. `lr`, finite and 0
  // or more, replaces the rule's own.
  void Apply(double lr, std::span<float> weights, std::span<float> slots,
             std::span<const float> gradient) const {
    apply_(options_, lr, weights.data(), slots.data(), gradient.data(), weights.size());
  }

 private:
  using ApplyFn = void (*)(const RuleOptions&, double lr, float* weights, float* slots,
                           const float* gradient, size_t n);
  Rule(const RuleOptions& options, ApplyFn apply) : options_(options), apply_(apply) {}
  static ApplyFn Kernel(const RuleOptions& options);

  RuleOptions options_ = Sgd{};
  ApplyFn apply_ = Kernel(Sgd{});
};

}  // namespace gradwire::optim
