#include "rpc/tensor/tensor_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {

constexpr uint8_t kFlagEmbedded = 1;
constexpr uint8_t kFlagStrides = 2;
constexpr uint8_t kFlagUndefined = 4;
constexpr uint8_t kKnownFlags = kFlagEmbedded | kFlagStrides | kFlagUndefined;

absl::Status Wrong(const TensorLayout& layout, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", layout.ToString(), ": ", why));
}

// Whether some order of the dimensions makes the strides those of a packed tensor. `count` is the
// number of elements, not 0. A dimension of size 1 may have any stride from 1 to `count`.
bool IsDense(const TensorLayout& layout, int64_t count) {
  size_t left = 0;
  for (size_t i = 0; i < layout.dim_count; ++i) {
    if (layout.size[i] != 1) {
      ++left;
    } else if (layout.stride[i] < 1 || layout.stride[i] > count) {
      return false;
    }
  }
  // From the innermost dimension outwards: the next stride is what lies inside. It grows with each
  // step, so that no dimension is found twice.
  int64_t inside = 1;
  for (; left > 0; --left) {
    size_t next = 0;
    while (next < layout.dim_count && (layout.size[next] == 1 || layout.stride[next] != inside)) {
      ++next;
    }
    if (next == layout.dim_count) return false;
    inside *= layout.size[next];
  }
  return true;
}

}  // namespace

absl::StatusOr<TensorLayout> TensorLayout::Make(DType dtype, std::span<const int64_t> sizes,
                                                std::span<const int64_t> strides) {
  if (sizes.size() > kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor with ", sizes.size(), " dimensions: at most ", kMaxTensorDims, " travel"));
  }
  if (!strides.empty() && strides.size() != sizes.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor with ", sizes.size(), " sizes and ", strides.size(), " strides"));
  }
  TensorLayout layout;
  layout.dtype = dtype;
  layout.dim_count = static_cast<uint8_t>(sizes.size());
  layout.has_strides = !strides.empty();
  std::copy(sizes.begin(), sizes.end(), layout.size.begin());
  std::copy(strides.begin(), strides.end(), layout.stride.begin());
  return layout;
}

absl::StatusOr<uint64_t> TensorLayout::CheckedBytes(const ValueLimits& limits) const {
  if (dtype == DType::kUndefined) {
    if (dim_count != 0 || has_strides) {
      return absl::InvalidArgumentError("an undefined tensor has sizes");
    }
    return 0;
  }
  const uint64_t item_bytes = ItemBytes(dtype);
  if (item_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("dtype number ", static_cast<int>(dtype),
                                                   " is not carried; these are: ", kCarriedDTypes));
  }
  if (dim_count > kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat("tensor with ", static_cast<int>(dim_count),
                                                   " dimensions: at most ", kMaxTensorDims,
                                                   " travel"));
  }
  // Zeros count as 1, so that no sub-product overflows either, whatever the order of the sizes.
  int64_t product = static_cast<int64_t>(item_bytes);
  bool empty = false;
  for (const int64_t s : sizes()) {
    if (s < 0) return Wrong(*this, "a size is negative");
    empty = empty || s == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(s, 1), &product)) {
      return Wrong(*this, "more bytes than 2^63");
    }
  }
  const uint64_t size_bytes = empty ? 0 : static_cast<uint64_t>(product);
  if (size_bytes > limits.max_tensor_bytes) {
    return Wrong(*this, absl::StrCat(size_bytes, " bytes, but max_tensor_bytes is ",
                                     limits.max_tensor_bytes));
  }
  if (has_strides) {
    if (empty || dim_count == 0) return Wrong(*this, "strides without elements to order");
    if (!IsDense(*this, product / static_cast<int64_t>(item_bytes))) {
      return Wrong(*this, "the strides leave holes or overlap");
    }
  }
  return size_bytes;
}

std::string TensorLayout::ToString() const {
  if (dtype == DType::kUndefined) return "undefined";
  std::string text = absl::StrCat(DTypeName(dtype), " [", absl::StrJoin(sizes(), ", "), "]");
  if (has_strides) absl::StrAppend(&text, " with strides [", absl::StrJoin(strides(), ", "), "]");
  return text;
}

bool operator==(const TensorLayout& a, const TensorLayout& b) {
  if (a.dtype != b.dtype || !std::ranges::equal(a.sizes(), b.sizes())) return false;
  if (!a.has_strides && !b.has_strides) return true;
  const auto row_major = RowMajorStrides(a.sizes());
  const auto& mine = a.has_strides ? a.stride : row_major;
  const auto& others = b.has_strides ? b.stride : row_major;
  return std::equal(mine.begin(), mine.begin() + a.dim_count, others.begin());
}

std::array<int64_t, kMaxTensorDims> RowMajorStrides(std::span<const int64_t> sizes) {
  std::array<int64_t, kMaxTensorDims> strides = {};
  uint64_t next = 1;  // unsigned: unchecked layouts may be compared, and must not overflow
  for (size_t i = std::min(sizes.size(), kMaxTensorDims); i-- > 0;) {
    strides[i] = static_cast<int64_t>(next);
    next *= static_cast<uint64_t>(std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

void WriteTensorDescriptor(const TensorLayout& layout, bool embedded, ByteWriter& out) {
  if (layout.dtype == DType::kUndefined) {
    const std::byte undefined[] = {std::byte{0}, std::byte{kFlagUndefined}, std::byte{0}};
    return out.WriteBytes(undefined);
  }
  const uint8_t flags = (embedded ? kFlagEmbedded : 0) | (layout.has_strides ? kFlagStrides : 0);
  const std::byte start[] = {static_cast<std::byte>(layout.dtype), std::byte{flags},
                             std::byte{layout.dim_count}};
  out.WriteBytes(start);
  out.WriteBytes(std::as_bytes(layout.sizes()));
  out.WriteBytes(std::as_bytes(layout.strides()));
}

absl::StatusOr<TensorDescriptor> ReadTensorDescriptor(ByteReader& in, const ValueLimits& limits) {
  uint8_t dtype = 0, flags = 0, dim_count = 0;
  if (!in.Read(dtype) || !in.Read(flags) || !in.Read(dim_count)) return in.EndsEarly("a tensor");
  if ((flags & ~kKnownFlags) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor with unknown flags ", flags));
  }
  TensorDescriptor out;
  if ((flags & kFlagUndefined) != 0) {
    if (dtype != 0 || flags != kFlagUndefined || dim_count != 0) {
      return absl::InvalidArgumentError("an undefined tensor has a dtype, sizes or other flags");
    }
    return out;
  }
  if (!IsCarriedDType(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype number ", dtype, " is not carried; these are: ", kCarriedDTypes));
  }
  if (dim_count > kMaxTensorDims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor with ", dim_count, " dimensions: at most ", kMaxTensorDims, " travel"));
  }
  TensorLayout& layout = out.layout;
  layout.dtype = static_cast<DType>(dtype);
  layout.dim_count = dim_count;
  layout.has_strides = (flags & kFlagStrides) != 0;
  out.embedded = (flags & kFlagEmbedded) != 0;
  for (size_t i = 0; i < dim_count; ++i) {
    if (!in.Read(layout.size[i])) return in.EndsEarly("a tensor's sizes");
  }
  for (size_t i = 0; layout.has_strides && i < dim_count; ++i) {
    if (!in.Read(layout.stride[i])) return in.EndsEarly("a tensor's strides");
  }
  GW_ASSIGN_OR_RETURN(out.size_bytes, layout.CheckedBytes(limits));
  if (out.embedded && out.size_bytes > kMaxEmbeddedBytes) {
    return Wrong(layout,
                 absl::StrCat("embedded, but only up to ", kMaxEmbeddedBytes, " bytes may be"));
  }
  return out;
}

bool AreBools(Bytes bytes) {
  uint8_t seen = 0;
  for (const std::byte b : bytes) seen |= static_cast<uint8_t>(b);
  return seen <= 1;
}

}  // namespace gradwire::rpc
