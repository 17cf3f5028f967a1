#include "server/requests.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

constexpr uint32_t kExponent = 0x7f800000;

absl::Status CheckKind(const rpc::TensorView& view, rpc::DType dtype, absl::string_view what) {
  if (view.layout.dtype != dtype || view.layout.has_strides) {
    return absl::InvalidArgumentError(absl::StrCat(what, " are ", view.layout.ToString(),
                                                   "; they must be ", rpc::DTypeName(dtype),
                                                   ", row-major"));
  }
  return absl::OkStatus();
}

}  // namespace

template <class T>
Elements<T>::Elements(Buffer bytes) : bytes_(std::move(bytes)) {
  if (bytes_.empty()) {
    bytes_ = Buffer();
  } else if (reinterpret_cast<uintptr_t>(bytes_.data()) % alignof(T) != 0) {
    copy_.resize(bytes_.size() / sizeof(T));
    std::memcpy(copy_.data(), bytes_.data(), bytes_.size());
  }
}
template class Elements<int64_t>;
template class Elements<float>;

absl::StatusOr<Elements<int64_t>> ParseIds(const rpc::TensorView& view, absl::string_view what) {
  GW_RETURN_IF_ERROR(CheckKind(view, rpc::DType::kInt64, what));
  if (view.layout.dim_count != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " are ", view.layout.ToString(), "; they must have one dimension"));
  }
  Elements<int64_t> ids(view.bytes);
  int64_t all = 0;
  for (const int64_t id : ids.values()) all |= id;
  if (all < 0) {
    size_t place = 0;
    while (ids.values()[place] >= 0) ++place;
    return absl::InvalidArgumentError(absl::StrCat("number ", place, " of the ", what, " is ",
                                                   ids.values()[place], "; ids are not negative"));
  }
  return ids;
}

absl::StatusOr<Elements<float>> ParseRows(const rpc::TensorView& view, size_t rows, size_t columns,
                                          absl::string_view what) {
  GW_RETURN_IF_ERROR(CheckKind(view, rpc::DType::kFloat32, what));
  if (view.layout.dim_count != 2 || std::cmp_not_equal(view.layout.size[0], rows) ||
      std::cmp_not_equal(view.layout.size[1], columns)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " are ", view.layout.ToString(),
                                                   "; for these ids they must be [", rows, ", ",
                                                   columns, "]"));
  }
  return Elements<float>(view.bytes);
}

absl::StatusOr<Elements<float>> ParseBlock(const rpc::TensorView& view, size_t count,
                                           absl::string_view what) {
  GW_RETURN_IF_ERROR(CheckKind(view, rpc::DType::kFloat32, what));
  if (view.bytes.size() != count * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " are ", view.layout.ToString(),
                                                   "; they must have ", count, " elements"));
  }
  return Elements<float>(view.bytes);
}

size_t FirstNonFinite(std::span<const float> values) {
  // Whole blocks without a branch, so that the loop vectorizes.
  constexpr size_t kBlock = 1024;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    // The largest exponent, as an integer that orders like it: what -O2 vectorizes.
    int32_t largest = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      const auto magnitude = static_cast<int32_t>(std::bit_cast<uint32_t>(block[i]) & kExponent);
      largest = magnitude > largest ? magnitude : largest;
    }
    if (largest != static_cast<int32_t>(kExponent)) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if ((std::bit_cast<uint32_t>(block[i]) & kExponent) == kExponent) return begin + i;
    }
  }
  return values.size();
}

}  // namespace gradwire::server
