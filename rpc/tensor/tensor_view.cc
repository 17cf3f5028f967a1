#include "rpc/tensor/tensor_view.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {

absl::Status TensorView::Validate(const ValueLimits& limits) const {
  GW_ASSIGN_OR_RETURN(const uint64_t expected, layout.CheckedBytes(limits));
  if (bytes.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", layout.ToString(), " has ",
                                                   bytes.size(), " bytes instead of ", expected));
  }
  if (layout.dtype == DType::kBool && !AreBools(bytes.bytes())) {
    return absl::InvalidArgumentError("a bool tensor has bytes other than 0 and 1");
  }
  return absl::OkStatus();
}

}  // namespace gradwire::rpc
