// The gateway to libtorch: at::Tensor as a value on the wire, a few factories, the fence.
//
// The only header of the torch-free folders that includes libtorch, and the least of it: a tensor
// and its methods (ATen/core/Tensor.h), no free functions. Including it installs libtorch's part of
// the fence (rpc/tensor/fence.h) in the program.
//
// Travels:       CPU tensors with the dtypes of dtype.h. Values only: gradients, graph and names of
//                storage stay behind; conjugate and negative views are resolved; packed layouts
//                (channels_last too) keep their strides, others arrive row-major; a view carries
//                what it shows. Arrives as a leaf that doesn't require grad.
// Refused:       by name: sparse, quantized, meta, nested, mkldnn, named and CUDA tensors, other
//                dtypes, more than kMaxTensorDims dimensions.
// Ownership:     Sharing in payload_writer.h. Tensors that a peer sent adopt the received bytes
//                where those are exclusive; such tensors can't be resized.
// Limits:        ValueLimits::max_tensor_bytes. Inference tensors have no version, so that above
//                kBorrowBytes they are copied where others would be borrowed.
// Errors:        INVALID_ARGUMENT what is refused; RESOURCE_EXHAUSTED out of memory.
// Thread-safety: stateless.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/tensor/codec.h"
#include "rpc/tensor/fence.h"
#include "rpc/tensor/tensor_view.h"

namespace gradwire::rpc {

template <>
struct Codec<at::Tensor> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = Codec<TensorView>::kMinBytes;
  static std::string TypeName() { return Codec<TensorView>::TypeName(); }
  static absl::Status Encode(PayloadWriter& out, const at::Tensor& tensor);
  static absl::StatusOr<at::Tensor> Decode(PayloadReader& in);
};

// INVALID_ARGUMENT with the list of those that are: the dtype is not carried.
absl::StatusOr<DType> DTypeOf(at::ScalarType type);
// `dtype` must be one (not kUndefined).
at::ScalarType ScalarTypeOf(DType dtype);

// A view that shares the tensor's memory where its layout can travel, else shows a copy. The tensor
// must not change while the view lives.
absl::StatusOr<TensorView> ToView(const at::Tensor& tensor, const ValueLimits& limits = {});
// A copy of its own.
absl::StatusOr<at::Tensor> FromView(const TensorView& view, const ValueLimits& limits = {});

// CPU tensors. Empty: elements undefined.
absl::StatusOr<at::Tensor> Empty(at::IntArrayRef sizes, at::ScalarType dtype);
absl::StatusOr<at::Tensor> Zeros(at::IntArrayRef sizes, at::ScalarType dtype);
// A row-major copy of `bytes`, which must have exactly the length.
absl::StatusOr<at::Tensor> FromBytes(Bytes bytes, at::IntArrayRef sizes, at::ScalarType dtype);
// Row-major: adopts exclusive bytes, copies others.
absl::StatusOr<at::Tensor> FromBuffer(ReceivedAttachment attachment, at::IntArrayRef sizes,
                                      at::ScalarType dtype);
absl::StatusOr<at::Tensor> Cat(at::TensorList tensors, int64_t dim);

// Fence() under the name that code with libtorch uses: every call that can run ops sits in one.
// c10::IndexError, ValueError and TypeError are INVALID_ARGUMENT, out of memory is
// RESOURCE_EXHAUSTED, the rest INTERNAL; the message never has a backtrace.
template <class Fn>
auto TorchToStatus(absl::string_view name, Fn&& fn) {
  return Fence(name, std::forward<Fn>(fn));
}

namespace torch_internal {
bool Install();
inline const bool kInstalled = Install();
}  // namespace torch_internal

}  // namespace gradwire::rpc
