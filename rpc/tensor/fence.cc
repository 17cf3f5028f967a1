#include "rpc/tensor/fence.h"

#include <atomic>
#include <new>

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {
namespace {

// Publishes a constant object; set while the program starts, so no lock.
std::atomic<const TensorRuntime*> g_runtime{nullptr};

absl::Status Describe(absl::StatusCode code, absl::string_view what, absl::string_view text) {
  const bool cut = text.size() > kMaxExceptionTextBytes;
  return absl::Status(
      code, absl::StrCat(what, ": ", text.substr(0, kMaxExceptionTextBytes), cut ? "..." : ""));
}

}  // namespace

void SetTensorRuntime(const TensorRuntime* runtime) {
  g_runtime.store(runtime, std::memory_order_release);
}

absl::Status CurrentExceptionToStatus(absl::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Describe(absl::StatusCode::kResourceExhausted, what, "out of memory");
  } catch (const std::exception& e) {
    const TensorRuntime* runtime = g_runtime.load(std::memory_order_acquire);
    if (runtime != nullptr) {
      if (const std::optional<absl::Status> status = runtime->to_status(e); status.has_value()) {
        return Describe(status->code(), what, status->message());
      }
    }
    return Describe(absl::StatusCode::kInternal, what, e.what());
  } catch (...) {
    return Describe(absl::StatusCode::kInternal, what, "an exception of unknown type");
  }
}

HandlerScope::HandlerScope() : runtime_(g_runtime.load(std::memory_order_acquire)) {
  if (runtime_ != nullptr) entered_ = runtime_->enter_handler();
}

HandlerScope::~HandlerScope() {
  if (runtime_ != nullptr) runtime_->leave_handler(entered_);
}

}  // namespace gradwire::rpc
