// The fence: exceptions become statuses here, and nowhere else.
//
// Code of users, and of libtorch, may throw; nothing above the fence sees it. libtorch's exceptions
// are told apart by a runtime that rpc/tensor/torch.h installs in every program that includes it:
// their what() takes 6 ms, which a peer must not be able to spend.
//
// Errors:        RESOURCE_EXHAUSTED out of memory; what the runtime says for its own; else
// INTERNAL. Thread-safety: everything here is thread-safe. Limits:        kMaxExceptionTextBytes of
// an exception's text.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// 1 KiB: libtorch's longest useful messages (shapes of many inputs) fit.
inline constexpr size_t kMaxExceptionTextBytes = 1024;

// What a tensor library adds. The functions must not throw.
struct TensorRuntime {
  // Nothing: not one of its exceptions. The message is the exception's own text.
  std::optional<absl::Status> (*to_status)(const std::exception& e) = nullptr;
  // Around a handler's code on its thread, e.g. gradients off; leave gets what enter returned.
  bool (*enter_handler)() = nullptr;
  void (*leave_handler)(bool entered) = nullptr;
};

// `runtime` must live for ever. The last one counts.
void SetTensorRuntime(const TensorRuntime* runtime);

// Only inside a catch block: the exception as a status, with "what: " in front of its text.
absl::Status CurrentExceptionToStatus(absl::string_view what);

namespace fence_internal {
template <class R>
struct Fenced {
  using type = absl::StatusOr<R>;
};
template <class R>
struct Fenced<absl::StatusOr<R>> {
  using type = absl::StatusOr<R>;
};
template <>
struct Fenced<absl::Status> {
  using type = absl::Status;
};
template <>
struct Fenced<void> {
  using type = absl::Status;
};
}  // namespace fence_internal

// Runs fn(). Its result as a StatusOr (a Status for void; Status and StatusOr as they are), or its
// exception, with "what: " in front.
template <class Fn>
auto Fence(absl::string_view what, Fn&& fn) ->
    typename fence_internal::Fenced<std::invoke_result_t<Fn>>::type {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn>>) {
      std::forward<Fn>(fn)();
      return absl::OkStatus();
    } else {
      return std::forward<Fn>(fn)();
    }
  } catch (...) {
    return CurrentExceptionToStatus(what);
  }
}

// Marks code of a handler for the tensor runtime, while it lives.
class HandlerScope {
 public:
  HandlerScope();
  ~HandlerScope();
  HandlerScope(const HandlerScope&) = delete;
  HandlerScope& operator=(const HandlerScope&) = delete;

 private:
  const TensorRuntime* runtime_;
  bool entered_ = false;
};

}  // namespace gradwire::rpc
