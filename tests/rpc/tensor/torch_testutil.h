// Tensors for tests, from the cheap doors of libtorch.
#pragma once

#include <cstring>
#include <vector>

#include "ATen/ops/arange_ops.h"
#include "rpc/tensor/torch.h"

namespace gradwire::rpc::testing {

// 0, 1, 2, … in these sizes.
inline at::Tensor Counting(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::_ops::arange::call(count, at::kLong, std::nullopt, std::nullopt, std::nullopt)
      .to(dtype)
      .view(sizes);
}

// The same dtype, sizes, strides and elements.
inline bool Identical(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.equal(b);
}

}  // namespace gradwire::rpc::testing
