// googlemock matchers for Status and StatusOr: IsOk(), IsOkAndHolds(m), StatusIs(code[, m]).
#pragma once

#include <gmock/gmock.h>

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gradwire::testing {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <class T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  if (GetStatus(arg).ok()) return true;
  *result_listener << "whose status is " << GetStatus(arg).ToString();
  return false;
}

MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << "whose status is " << status.ToString();
  return status.code() == code &&
         ::testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}
template <class Code>
auto StatusIs(Code code) {
  return StatusIs(code, ::testing::_);
}

MATCHER_P(IsOkAndHolds, inner, "") {
  if (!arg.ok()) {
    *result_listener << "whose status is " << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(inner, *arg, result_listener);
}

}  // namespace gradwire::testing
