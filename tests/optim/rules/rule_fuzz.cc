// Any name with any options is a rule or refused with a status; a rule that was accepted reads back
// as itself and takes steps that leave numbers. Input: the name up to a zero byte, then options:
// a name up to a zero byte and 8 bytes of a double; in the end gradients.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "optim/rules/rule.h"
#include "rpc/base/status.h"

namespace gradwire::optim {
namespace {

std::string TakeName(absl::string_view& in) {
  const size_t end = std::min(in.find('\0'), in.size());
  std::string name(in.substr(0, end));
  in.remove_prefix(std::min(in.size(), end + 1));
  return name;
}

NamedRule Take(absl::string_view& in) {
  NamedRule named{TakeName(in), {}};
  while (!in.empty() && in[0] != '\0') {
    std::string name = TakeName(in);
    double value = 0;
    if (in.size() < sizeof value) break;
    std::memcpy(&value, in.data(), sizeof value);
    in.remove_prefix(sizeof value);
    named.options.emplace_back(std::move(name), value);
  }
  return named;
}

void Check(absl::string_view in) {
  const absl::StatusOr<Rule> rule = Rule::FromNamed(Take(in));
  if (!rule.ok()) {
    GW_CHECK(absl::IsInvalidArgument(rule.status()));
    return;
  }
  const absl::StatusOr<Rule> again = Rule::FromNamed(rule->ToNamed());
  GW_CHECK(again.ok() && again->ToString() == rule->ToString());

  const size_t n = std::min<size_t>(in.size(), 40);
  std::vector<float> weights(n), slots(rule->SlotCount(n)), gradient(n);
  for (size_t i = 0; i < n; ++i) gradient[i] = static_cast<float>(in[i]) / 128.0F;
  rule->InitSlots(slots, n);
  for (int step = 0; step < 3; ++step) rule->Apply(0.01, weights, slots, gradient);
  // Options near the end of float32's range overflow; those that people use don't.
  for (const auto& [name, value] : rule->ToNamed().options) {
    if (value > 1e6 || (value != 0 && value < 1e-12)) return;
  }
  for (const float w : weights) GW_CHECK(std::isfinite(w));
  for (const float s : slots) GW_CHECK(std::isfinite(s));
}

}  // namespace
}  // namespace gradwire::optim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::optim::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
