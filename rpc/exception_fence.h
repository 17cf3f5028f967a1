// The fence around users' code: no exception crosses it.
//
// Thread-safety: Fence is stateless; SetExceptionTranslator is called once, before agents start.
#pragma once

#include <exception>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// Turns an exception that it knows into a status; nullopt for others. libtorch's gateway sets one,
// since asking a c10::Error for what() costs 6 ms.
using ExceptionTranslator = std::optional<absl::Status> (*)(const std::exception& exception);
void SetExceptionTranslator(ExceptionTranslator translator);

// What the exception that is being handled becomes: RESOURCE_EXHAUSTED for std::bad_alloc, else
// INTERNAL "function NAME threw: …". Only inside a catch block.
absl::Status CurrentExceptionStatus(absl::string_view function);

// Runs `fn()`; OK, or what it threw.
template <class F>
absl::Status Fence(absl::string_view function, F&& fn) {
  try {
    fn();
    return absl::OkStatus();
  } catch (...) {
    return CurrentExceptionStatus(function);
  }
}

}  // namespace gradwire::rpc
