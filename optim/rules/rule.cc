#include "optim/rules/rule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "optim/rules/kernels.h"
#include "optim/rules/option_fields.h"
#include "rpc/base/status.h"

namespace gradwire::optim {
namespace {

// Element slots a weight, and scalars a row.
struct SlotShape {
  size_t per_weight = 0;
  size_t scalars = 0;
};

struct ShapeOf {
  SlotShape operator()(const Sgd& o) const {
    if (o.momentum == 0) return {0, 0};
    return {1, o.dampening != 0 ? size_t{1} : size_t{0}};
  }
  SlotShape operator()(const Adagrad&) const { return {1, 0}; }
  SlotShape operator()(const RowwiseAdagrad&) const { return {0, 1}; }
  SlotShape operator()(const Adam&) const { return {2, 1}; }
  SlotShape operator()(const AdamW&) const { return {2, 1}; }
  SlotShape operator()(const RmsProp& o) const {
    return {size_t{1} + (o.centered ? 1 : 0) + (o.momentum != 0 ? 1 : 0), 0};
  }
  SlotShape operator()(const Ftrl&) const { return {2, 0}; }
};

absl::Status CheckTogether(const RuleOptions& options) {
  if (const auto* sgd = std::get_if<Sgd>(&options)) {
    if (sgd->nesterov && (sgd->momentum == 0 || sgd->dampening != 0)) {
      return absl::InvalidArgumentError("sgd: nesterov needs a momentum above 0 and no dampening");
    }
  }
  if (const auto* adagrad = std::get_if<Adagrad>(&options)) {
    // 0 / 0 for the first gradient that is zero.
    if (static_cast<float>(adagrad->eps) == 0 &&
        static_cast<float>(adagrad->initial_accumulator) == 0) {
      return absl::InvalidArgumentError(
          "adagrad: eps or initial_accumulator must be above 0 (in float32)");
    }
  }
  return absl::OkStatus();
}

// All rules with their defaults.
std::vector<RuleOptions> AllRules() {
  return {Sgd{}, Adagrad{}, RowwiseAdagrad{}, Adam{}, AdamW{}, RmsProp{}, Ftrl{}};
}

// What came from a peer, fit for a message.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 64)), "\"");
}

absl::Status UnknownRule(absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const RuleOptions& rule : AllRules()) names.push_back(NameOf(rule));
  return absl::InvalidArgumentError(
      absl::StrCat("no rule ", Quoted(name), "; there are ", absl::StrJoin(names, ", ")));
}

absl::Status UnknownOption(absl::string_view rule, absl::string_view option,
                           const std::vector<OptionField>& fields) {
  const std::string names = absl::StrJoin(
      fields, ", ", [](std::string* out, const OptionField& f) { absl::StrAppend(out, f.name); });
  return absl::InvalidArgumentError(
      absl::StrCat(rule, ": no option ", Quoted(option), "; there are ", names));
}

}  // namespace

absl::StatusOr<Rule> Rule::Create(const RuleOptions& options) {
  RuleOptions own = options;
  for (const OptionField& field : FieldsOf(own)) {
    GW_RETURN_IF_ERROR(field.Set(field.Get()), _ << NameOf(own));
  }
  GW_RETURN_IF_ERROR(CheckTogether(own));
  return Rule(own, Kernel(own));
}

absl::StatusOr<Rule> Rule::FromNamed(const NamedRule& named) {
  for (RuleOptions& options : AllRules()) {
    if (NameOf(options) != named.name) continue;
    std::vector<OptionField> fields = FieldsOf(options);
    std::vector<bool> seen(fields.size());
    for (const auto& [name, value] : named.options) {
      const auto found = std::find_if(fields.begin(), fields.end(),
                                      [&](const OptionField& f) { return f.name == name; });
      if (found == fields.end()) return UnknownOption(named.name, name, fields);
      const auto at = static_cast<size_t>(found - fields.begin());
      if (seen[at]) {
        return absl::InvalidArgumentError(absl::StrCat(named.name, ": ", name, " is given twice"));
      }
      seen[at] = true;
      GW_RETURN_IF_ERROR(found->Set(value), _ << named.name);
    }
    return Create(options);
  }
  return UnknownRule(named.name);
}

NamedRule Rule::ToNamed() const {
  RuleOptions own = options_;
  NamedRule named{std::string(NameOf(own)), {}};
  for (const OptionField& field : FieldsOf(own)) {
    named.options.emplace_back(std::string(field.name), field.Get());
  }
  return named;
}

std::string Rule::ToString() const {
  const NamedRule named = ToNamed();
  const auto option = [](std::string* out, const std::pair<std::string, double>& o) {
    absl::StrAppend(out, o.first, "=", ShortestText(o.second));
  };
  return absl::StrCat(named.name, "(", absl::StrJoin(named.options, ", ", option), ")");
}

double Rule::lr() const {
  return std::visit([](const auto& o) { return o.lr; }, options_);
}

size_t Rule::SlotCount(size_t n) const {
  const SlotShape shape = std::visit(ShapeOf{}, options_);
  return shape.per_weight * n + shape.scalars;
}

void Rule::InitSlots(std::span<float> slots, size_t n) const {
  float first = 0;
  if (const auto* adagrad = std::get_if<Adagrad>(&options_)) {
    first = static_cast<float>(adagrad->initial_accumulator);
  } else if (const auto* rowwise = std::get_if<RowwiseAdagrad>(&options_)) {
    first = static_cast<float>(rowwise->initial_accumulator);
  }
  const size_t count = std::min(slots.size(), SlotCount(n));
  std::fill(slots.begin(), slots.begin() + static_cast<ptrdiff_t>(count), first);
}

Rule::ApplyFn Rule::Kernel(const RuleOptions& options) { return FindKernel(options, BestIsa()); }

}  // namespace gradwire::optim
