// What arrived, checked: requests become these once, and only these reach the stores.
//
// Errors:        INVALID_ARGUMENT naming the table, the field, the place and what is allowed.
// Thread-safety: plain values and free functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/tensor/tensor_view.h"

namespace gradwire::server {

// Elements of a tensor that a peer sent, where they lie if they are aligned, else as a copy.
template <class T>
class Elements {
 public:
  Elements() = default;
  explicit Elements(Buffer bytes);
  std::span<const T> values() const {
    return copy_.empty() ? std::span<const T>(reinterpret_cast<const T*>(bytes_.data()),
                                              bytes_.size() / sizeof(T))
                         : std::span<const T>(copy_);
  }
  size_t size() const { return values().size(); }

 private:
  Buffer bytes_;
  std::vector<T> copy_;
};

// `what`: "ids of table emb", for messages. int64 [n], none negative.
absl::StatusOr<Elements<int64_t>> ParseIds(const rpc::TensorView& view, absl::string_view what);
// float32 [rows, columns].
absl::StatusOr<Elements<float>> ParseRows(const rpc::TensorView& view, size_t rows, size_t columns,
                                          absl::string_view what);
// float32 with `count` elements in any row-major shape.
absl::StatusOr<Elements<float>> ParseBlock(const rpc::TensorView& view, size_t count,
                                           absl::string_view what);

// The place of the first value that is NaN or infinite; values.size() if all are finite.
size_t FirstNonFinite(std::span<const float> values);

}  // namespace gradwire::server
