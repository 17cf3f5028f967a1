// Element type, sizes and strides of a tensor, without its bytes; and the descriptor that carries
// them.
//
// Wire:          proto/gradwire/v1/values.md, "Tensors".
// Thread-safety: plain values.
// Limits:        kMaxTensorDims dimensions; ValueLimits::max_tensor_bytes.
// Errors:        INVALID_ARGUMENT for everything that is wrong with a layout or a descriptor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/tensor/byte_reader.h"
#include "rpc/tensor/byte_writer.h"
#include "rpc/tensor/dtype.h"
#include "rpc/tensor/value_limits.h"

namespace gradwire::rpc {

struct TensorLayout {
  // kUndefined: no tensor at all; then there are no sizes.
  DType dtype = DType::kUndefined;
  uint8_t dim_count = 0;
  // False: row-major, and `stride` means nothing.
  bool has_strides = false;
  std::array<int64_t, kMaxTensorDims> size = {};    // elements, per dimension
  std::array<int64_t, kMaxTensorDims> stride = {};  // elements, per dimension

  // INVALID_ARGUMENT: more than kMaxTensorDims sizes, or another number of strides than of sizes.
  // Empty strides: row-major. Checks nothing else.
  static absl::StatusOr<TensorLayout> Make(DType dtype, std::span<const int64_t> sizes,
                                           std::span<const int64_t> strides = {});

  std::span<const int64_t> sizes() const { return {size.data(), dim_count}; }
  std::span<const int64_t> strides() const {
    return {stride.data(), has_strides ? dim_count : size_t{0}};
  }

  // Checks everything and returns the number of bytes: sizes not negative, their product times the
  // item size without overflow and within the limit, strides dense and without overlap.
  absl::StatusOr<uint64_t> CheckedBytes(const ValueLimits& limits) const;

  // "float32 [2, 3]", "float32 [2, 3] with strides [1, 2]", "undefined".
  std::string ToString() const;

  // Same type, sizes and strides (row-major by name and by number are the same).
  friend bool operator==(const TensorLayout& a, const TensorLayout& b);
};

// Strides of a row-major tensor of these sizes; a size of 0 counts as 1. At most kMaxTensorDims
// sizes that have passed CheckedBytes.
std::array<int64_t, kMaxTensorDims> RowMajorStrides(std::span<const int64_t> sizes);

// How a descriptor says where the bytes are.
struct TensorDescriptor {
  TensorLayout layout;
  uint64_t size_bytes = 0;
  // True: the bytes follow the descriptor; false: they are the next attachment. Of no meaning for
  // an undefined tensor, which has neither.
  bool embedded = false;
};

// `layout` must have passed CheckedBytes.
void WriteTensorDescriptor(const TensorLayout& layout, bool embedded, ByteWriter& out);
absl::StatusOr<TensorDescriptor> ReadTensorDescriptor(ByteReader& in, const ValueLimits& limits);

// Whether a bool tensor's bytes are all 0 or 1; others would be undefined behaviour in kernels.
bool AreBools(Bytes bytes);

}  // namespace gradwire::rpc
