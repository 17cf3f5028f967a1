// Status macros and helpers on top of absl::Status.
//
//   GW_RETURN_IF_ERROR(expr);                        returns the status of `expr` unless it is OK
//   GW_RETURN_IF_ERROR(expr, _ << "phase " << x);    the same, with context put in front of the
//   message GW_ASSIGN_OR_RETURN(auto v, expr);               v = *expr, or returns its status
//   GW_ASSIGN_OR_RETURN(auto v, expr, _ << "..");    the same, with context
//
// Context is added outward: "restoring shard 7: crc mismatch in manifest". Code and payloads are
// kept. Thread-safety: everything here is stateless.
#pragma once

#include <exception>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gradwire {

// Collects context with <<; converts to the status with "context: message".
class StatusContext {
 public:
  explicit StatusContext(absl::Status status) : status_(std::move(status)) {}

  template <class T>
  StatusContext& operator<<(const T& value) {
    stream_ << value;
    return *this;
  }

  // The annotated status. An OK status stays OK.
  absl::Status Build() const;

 private:
  absl::Status status_;
  std::ostringstream stream_;
};

// `status` with "context: " in front of its message; code and payloads kept; OK stays OK.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

// What is always on, for our own invariants alone (never for input): prints and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

namespace status_internal {
inline absl::Status ToStatus(absl::Status status) { return status; }
template <class T>
absl::Status ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}
inline absl::Status Annotate(const StatusContext& context) { return context.Build(); }
}  // namespace status_internal

}  // namespace gradwire

#define GW_STATUS_CAT_(a, b) a##b
#define GW_STATUS_CAT(a, b) GW_STATUS_CAT_(a, b)
#define GW_STATUS_PICK_(_1, _2, _3, name, ...) name

#define GW_RETURN_IF_ERROR_1_(expr)                                        \
  do {                                                                     \
    if (absl::Status gw_status_ = (expr); !gw_status_.ok()) [[unlikely]] { \
      return gw_status_;                                                   \
    }                                                                      \
  } while (false)
#define GW_RETURN_IF_ERROR_2_(expr, context)                               \
  do {                                                                     \
    if (absl::Status gw_status_ = (expr); !gw_status_.ok()) [[unlikely]] { \
      ::gradwire::StatusContext _(std::move(gw_status_));                  \
      return ::gradwire::status_internal::Annotate(context);               \
    }                                                                      \
  } while (false)
#define GW_RETURN_PICK_(_1, _2, name, ...) name
#define GW_RETURN_IF_ERROR(...) \
  GW_RETURN_PICK_(__VA_ARGS__, GW_RETURN_IF_ERROR_2_, GW_RETURN_IF_ERROR_1_)(__VA_ARGS__)

#define GW_ASSIGN_OR_RETURN_2_(tmp, lhs, expr) \
  auto tmp = (expr);                           \
  if (!tmp.ok()) [[unlikely]] {                \
    return std::move(tmp).status();            \
  }                                            \
  lhs = *std::move(tmp)
#define GW_ASSIGN_OR_RETURN_3_(tmp, lhs, expr, context)    \
  auto tmp = (expr);                                       \
  if (!tmp.ok()) [[unlikely]] {                            \
    ::gradwire::StatusContext _(std::move(tmp).status());  \
    return ::gradwire::status_internal::Annotate(context); \
  }                                                        \
  lhs = *std::move(tmp)
#define GW_ASSIGN_2_(lhs, expr) \
  GW_ASSIGN_OR_RETURN_2_(GW_STATUS_CAT(gw_result_, __LINE__), lhs, expr)
#define GW_ASSIGN_3_(lhs, expr, context) \
  GW_ASSIGN_OR_RETURN_3_(GW_STATUS_CAT(gw_result_, __LINE__), lhs, expr, context)
#define GW_ASSIGN_OR_RETURN(...) \
  GW_STATUS_PICK_(__VA_ARGS__, GW_ASSIGN_3_, GW_ASSIGN_2_)(__VA_ARGS__)

// Our own invariant; never reachable from input of a peer, a file or the environment.
#define GW_CHECK(condition)                                    \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::gradwire::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                          \
  } while (false)
