// The options of every rule by name, with what each may be. Internal to optim/rules.
//
// Thread-safety: values.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "optim/rules/rule.h"

namespace gradwire::optim {

// What a value may be, once it is rounded to float32.
enum class OptionRange {
  kNotNegative,
  kPositive,
  kBelowOne,  // from 0, 1 excluded
  kUpToOne,
  kFlag,  // 0 or 1
};

// One option of some RuleOptions, which must outlive it.
struct OptionField {
  absl::string_view name;
  OptionRange range = OptionRange::kNotNegative;
  double* number = nullptr;
  bool* flag = nullptr;  // for kFlag, instead of `number`

  double Get() const { return flag != nullptr ? static_cast<double>(*flag) : *number; }
  // INVALID_ARGUMENT naming the option: not finite (in float32) or out of range.
  absl::Status Set(double value) const;
};

// In the order of the struct.
std::vector<OptionField> FieldsOf(RuleOptions& options);
// "sgd".
absl::string_view NameOf(const RuleOptions& options);
// The shortest text that reads back as the same number, whatever the locale.
std::string ShortestText(double value);

}  // namespace gradwire::optim
