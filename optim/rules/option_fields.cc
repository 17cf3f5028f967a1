#include "optim/rules/option_fields.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace gradwire::optim {
namespace {

using Fields = std::vector<OptionField>;
using enum OptionRange;

struct Lister {
  Fields operator()(Sgd& o) const {
    return {{"lr", kNotNegative, &o.lr},
            {"momentum", kNotNegative, &o.momentum},
            {"dampening", kUpToOne, &o.dampening},
            {"weight_decay", kNotNegative, &o.weight_decay},
            {"nesterov", kFlag, nullptr, &o.nesterov}};
  }
  Fields operator()(Adagrad& o) const {
    return {{"lr", kNotNegative, &o.lr},
            {"weight_decay", kNotNegative, &o.weight_decay},
            {"initial_accumulator", kNotNegative, &o.initial_accumulator},
            {"eps", kNotNegative, &o.eps}};
  }
  Fields operator()(RowwiseAdagrad& o) const {
    return {{"lr", kNotNegative, &o.lr},
            {"initial_accumulator", kNotNegative, &o.initial_accumulator},
            {"eps", kNotNegative, &o.eps}};
  }
  Fields operator()(Adam& o) const { return OfAdam(o); }
  Fields operator()(AdamW& o) const { return OfAdam(o); }
  Fields operator()(RmsProp& o) const {
    return {{"lr", kNotNegative, &o.lr},
            {"alpha", kBelowOne, &o.alpha},
            {"eps", kPositive, &o.eps},
            {"weight_decay", kNotNegative, &o.weight_decay},
            {"momentum", kNotNegative, &o.momentum},
            {"centered", kFlag, nullptr, &o.centered}};
  }
  Fields operator()(Ftrl& o) const {
    return {{"lr", kPositive, &o.lr},
            {"beta", kNotNegative, &o.beta},
            {"l1", kNotNegative, &o.l1},
            {"l2", kNotNegative, &o.l2}};
  }

 private:
  template <class Options>
  static Fields OfAdam(Options& o) {
    return {{"lr", kNotNegative, &o.lr},
            {"beta1", kBelowOne, &o.beta1},
            {"beta2", kBelowOne, &o.beta2},
            {"eps", kPositive, &o.eps},
            {"weight_decay", kNotNegative, &o.weight_decay}};
  }
};

struct Namer {
  absl::string_view operator()(const Sgd&) const { return "sgd"; }
  absl::string_view operator()(const Adagrad&) const { return "adagrad"; }
  absl::string_view operator()(const RowwiseAdagrad&) const { return "rowwise_adagrad"; }
  absl::string_view operator()(const Adam&) const { return "adam"; }
  absl::string_view operator()(const AdamW&) const { return "adamw"; }
  absl::string_view operator()(const RmsProp&) const { return "rmsprop"; }
  absl::string_view operator()(const Ftrl&) const { return "ftrl"; }
};

// What is wanted of a value that isn't in `range`; empty where it is.
absl::string_view Wanted(OptionRange range, double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(rounded)) return "finite in float32";
  switch (range) {
    case kNotNegative:
      return value >= 0 ? "" : "0 or more";
    case kPositive:
      return rounded > 0 ? "" : "above 0 in float32";
    case kBelowOne:
      return value >= 0 && rounded < 1 ? "" : "from 0 to below 1 in float32";
    case kUpToOne:
      return value >= 0 && value <= 1 ? "" : "from 0 to 1";
    case kFlag:
      return value == 0 || value == 1 ? "" : "0 or 1";
  }
  return "";
}

}  // namespace

absl::Status OptionField::Set(double value) const {
  if (const absl::string_view wanted = Wanted(range, value); !wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", ShortestText(value), ", but must be ", wanted));
  }
  if (flag != nullptr) {
    *flag = value != 0;
  } else {
    *number = value + 0.0;  // never -0: equal rules have equal texts
  }
  return absl::OkStatus();
}

std::vector<OptionField> FieldsOf(RuleOptions& options) { return std::visit(Lister{}, options); }

absl::string_view NameOf(const RuleOptions& options) { return std::visit(Namer{}, options); }

std::string ShortestText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

}  // namespace gradwire::optim
