// A tensor as layout and bytes: what those use who don't want libtorch.
//
// Travels like an at::Tensor and is spelled "Tensor", so that either end may use either type.
// Thread-safety: plain value; the bytes are immutable.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "rpc/base/buffer.h"
#include "rpc/tensor/tensor_layout.h"

namespace gradwire::rpc {

struct TensorView {
  TensorLayout layout;
  // The elements in the order of the strides, exactly layout.CheckedBytes() of them.
  Buffer bytes;

  bool defined() const { return layout.dtype != DType::kUndefined; }

  // INVALID_ARGUMENT unless the layout is right, `bytes` has its length, and bools are 0 or 1.
  absl::Status Validate(const ValueLimits& limits) const;

  friend bool operator==(const TensorView& a, const TensorView& b) {
    return a.layout == b.layout && std::ranges::equal(a.bytes.bytes(), b.bytes.bytes());
  }
};

}  // namespace gradwire::rpc
