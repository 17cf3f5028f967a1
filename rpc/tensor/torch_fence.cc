// libtorch's part of the fence.
#include <exception>
#include <optional>

#include "absl/strings/match.h"
#include "c10/core/GradMode.h"
#include "c10/util/Exception.h"
#include "rpc/tensor/torch.h"

namespace gradwire::rpc::torch_internal {
namespace {

absl::StatusCode CodeOf(const c10::Error& e, absl::string_view text) {
  if (dynamic_cast<const c10::IndexError*>(&e) != nullptr ||
      dynamic_cast<const c10::ValueError*>(&e) != nullptr ||
      dynamic_cast<const c10::TypeError*>(&e) != nullptr) {
    return absl::StatusCode::kInvalidArgument;
  }
  // The CPU allocator has no exception type of its own.
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e) != nullptr ||
      absl::StrContains(text, "DefaultCPUAllocator")) {
    return absl::StatusCode::kResourceExhausted;
  }
  return absl::StatusCode::kInternal;
}

std::optional<absl::Status> ToStatus(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  if (error == nullptr) return std::nullopt;
  const absl::string_view text = error->what_without_backtrace();  // what() takes 6 ms
  return absl::Status(CodeOf(*error, text), text);
}

// Handlers run with gradients off.
bool EnterHandler() {
  const bool before = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(false);
  return before;
}
void LeaveHandler(bool before) { c10::GradMode::set_enabled(before); }

constexpr TensorRuntime kRuntime = {
    .to_status = ToStatus, .enter_handler = EnterHandler, .leave_handler = LeaveHandler};

}  // namespace

bool Install() {
  SetTensorRuntime(&kRuntime);
  return true;
}

}  // namespace gradwire::rpc::torch_internal
