#include "rpc/tensor/torch.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "ATen/EmptyTensor.h"
#include "ATen/core/IListRef.h"
#include "ATen/ops/cat_ops.h"
#include "ATen/ops/from_blob.h"
#include "absl/strings/str_cat.h"
#include "c10/core/GradMode.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {

// Indexed by DType.
constexpr std::array<at::ScalarType, kDTypeCount> kScalarTypes = {
    at::ScalarType::Undefined,    at::ScalarType::Float,    at::ScalarType::Double,
    at::ScalarType::Half,         at::ScalarType::BFloat16, at::ScalarType::Char,
    at::ScalarType::Short,        at::ScalarType::Int,      at::ScalarType::Long,
    at::ScalarType::Byte,         at::ScalarType::Bool,     at::ScalarType::ComplexFloat,
    at::ScalarType::ComplexDouble};

constexpr DType FindDType(at::ScalarType type) {
  for (size_t i = 1; i < kDTypeCount; ++i) {
    if (kScalarTypes[i] == type) return static_cast<DType>(i);
  }
  return DType::kUndefined;
}

// The kinds of tensor that travel: dense CPU ones, their views and what autograd adds to them.
constexpr c10::DispatchKeySet kPlainKeys({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU,
                                          c10::DispatchKey::AutocastCPU,
                                          c10::DispatchKey::ADInplaceOrView,
                                          c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

bool IsPlain(const at::Tensor& tensor) {
  return (tensor.key_set().raw_repr() & ~kPlainKeys.raw_repr()) == 0;
}

// Why a tensor that is not plain doesn't travel.
absl::Status RefuseKind(const at::Tensor& tensor) {
  const auto refuse = [](absl::string_view kind, absl::string_view cure) {
    return absl::InvalidArgumentError(absl::StrCat(kind, " tensors are not carried: ", cure));
  };
  if (tensor.is_quantized()) return refuse("quantized", "send dequantize() or int_repr()");
  if (tensor.is_sparse()) return refuse("sparse", "send indices and values, or to_dense()");
  if (tensor.layout() == at::kSparseCsr || tensor.layout() == at::kSparseCsc ||
      tensor.layout() == at::kSparseBsr || tensor.layout() == at::kSparseBsc) {
    return refuse("compressed sparse", "send indices and values, or to_dense()");
  }
  if (tensor.is_mkldnn()) return refuse("mkldnn", "send to_dense()");
  if (tensor.is_nested()) return refuse("nested", "send their parts as a vector");
  if (tensor.is_meta()) return refuse("meta", "they have no elements");
  if (tensor.is_cuda()) {
    return refuse("CUDA", "this peer has no device map; send cpu()");
  }
  if (!tensor.is_cpu()) return refuse(tensor.device().str(), "send cpu()");
  if (tensor.has_names()) return refuse("named", "drop the names with rename(std::nullopt)");
  if (tensor._is_zerotensor()) return refuse("zero", "send clone()");
  return refuse(absl::StrCat("(", c10::toString(tensor.key_set()), ")"), "send a plain CPU tensor");
}

// A tensor in a form that travels.
struct Prepared {
  at::Tensor made;  // defined where the caller's own didn't do: nobody else has it
  TensorLayout layout;
  uint64_t size_bytes = 0;
};

// Sizes and strides of a packed tensor. The stride of a dimension of size 1 means nothing; one out
// of the wire's bounds is replaced.
void FillLayout(const at::Tensor& tensor, TensorLayout& layout) {
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  layout.dim_count = static_cast<uint8_t>(sizes.size());
  const int64_t count = tensor.numel();
  int64_t row_major = 1;
  bool same = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    const int64_t size = sizes[i];
    int64_t stride = strides[i];
    if (size == 1 && (stride < 1 || stride > count)) stride = row_major;
    layout.size[i] = size;
    layout.stride[i] = stride;
    same = same && stride == row_major;
    row_major *= size;
  }
  layout.has_strides = !same && count > 0;
}

absl::Status Prepare(const at::Tensor& tensor, const ValueLimits& limits, Prepared& out) {
  if (!IsPlain(tensor)) [[unlikely]] {
    return RefuseKind(tensor);
  }
  out.layout.dtype = FindDType(tensor.scalar_type());
  if (out.layout.dtype == DType::kUndefined) return DTypeOf(tensor.scalar_type()).status();
  if (static_cast<size_t>(tensor.dim()) > kMaxTensorDims) {
    return TensorLayout::Make(out.layout.dtype, {tensor.sizes().data(), tensor.sizes().size()})
        .status();
  }
  const bool packed = tensor.is_contiguous() || tensor.is_non_overlapping_and_dense();
  if (packed && !tensor.is_conj() && !tensor.is_neg()) [[likely]] {
    FillLayout(tensor, out.layout);
    GW_ASSIGN_OR_RETURN(out.size_bytes, out.layout.CheckedBytes(limits));
    return absl::OkStatus();
  }
  // The limit first: a copy of what is too large anyway would only cost.
  TensorLayout shown;
  shown.dtype = out.layout.dtype;
  FillLayout(tensor, shown);
  shown.has_strides = false;
  GW_ASSIGN_OR_RETURN(out.size_bytes, shown.CheckedBytes(limits));
  const c10::NoGradGuard no_grad;
  out.made = tensor.resolve_conj().resolve_neg();
  if (!out.made.is_non_overlapping_and_dense()) out.made = out.made.contiguous();
  FillLayout(out.made, out.layout);
  return absl::OkStatus();
}

Bytes BytesOf(const at::Tensor& tensor, uint64_t size_bytes) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), size_bytes};
}

// Whether nobody else can reach the memory once `tensor` is gone. Memory without an owner
// (from_blob without deleter) is somebody else's.
bool IsOnlyHolder(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  return tensor.use_count() == 1 && storage.use_count() == 1 &&
         storage.data_ptr().get_context() != nullptr;
}

uint64_t VersionOf(const void* tensor) {
  return static_cast<const at::Tensor*>(tensor)
      ->unsafeGetTensorImpl()
      ->version_counter()
      .current_version();
}

Buffer CopyOf(Bytes bytes) {
  auto copy = std::make_shared_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const Bytes shown(copy.get(), bytes.size());
  return Buffer(shown, std::move(copy));
}

Buffer BufferOf(std::shared_ptr<const at::Tensor> tensor, uint64_t size_bytes) {
  const Bytes bytes = BytesOf(*tensor, size_bytes);
  return Buffer(bytes, std::move(tensor));
}

// Attaches the bytes of a tensor that is too large to be embedded.
void AttachTensor(PayloadWriter& out, const at::Tensor& tensor, Prepared prepared) {
  const uint64_t size_bytes = prepared.size_bytes;
  if (prepared.made.defined()) {
    return out.Attach(
        BufferOf(std::make_shared<const at::Tensor>(std::move(prepared.made)), size_bytes));
  }
  const bool borrow =
      out.sharing() == Sharing::kBorrow && size_bytes > kBorrowBytes && !tensor.is_inference();
  if (borrow) {
    auto held = std::make_shared<const at::Tensor>(tensor);
    out.Lend({.thing = held, .version_of = VersionOf, .version = VersionOf(held.get())});
    return out.Attach(BufferOf(std::move(held), size_bytes));
  }
  if (out.sharing() == Sharing::kTakeOrCopy && IsOnlyHolder(tensor)) {
    return out.Attach(BufferOf(std::make_shared<const at::Tensor>(tensor), size_bytes));
  }
  out.Attach(CopyOf(BytesOf(tensor, size_bytes)));
}

at::Tensor NewTensor(const TensorLayout& layout) {
  const at::IntArrayRef sizes(layout.size.data(), layout.dim_count);
  const at::ScalarType type = ScalarTypeOf(layout.dtype);
  if (layout.has_strides) {
    return at::Tensor(at::detail::empty_strided_cpu(
        sizes, at::IntArrayRef(layout.stride.data(), layout.dim_count), type));
  }
  return at::Tensor(at::detail::empty_cpu(sizes, type));
}

at::Tensor CopyIn(const TensorLayout& layout, Bytes bytes) {
  at::Tensor tensor = NewTensor(layout);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

// `attachment` has the layout's length.
at::Tensor AdoptOrCopy(const TensorLayout& layout, ReceivedAttachment attachment) {
  const Bytes bytes = attachment.bytes.bytes();
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0;
  if (!attachment.exclusive || !aligned || bytes.empty()) return CopyIn(layout, bytes);
  const auto strides = layout.has_strides ? layout.stride : RowMajorStrides(layout.sizes());
  // Exclusive: the bytes are const only for the layers that pass them on.
  void* data = const_cast<std::byte*>(bytes.data());
  return at::from_blob(
      data, at::IntArrayRef(layout.size.data(), layout.dim_count),
      at::IntArrayRef(strides.data(), layout.dim_count),
      [owner = attachment.bytes.owner()](void*) {}, at::TensorOptions(ScalarTypeOf(layout.dtype)));
}

absl::Status CheckBools(const TensorLayout& layout, Bytes bytes) {
  if (layout.dtype != DType::kBool || AreBools(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError("a bool tensor has bytes other than 0 and 1");
}

absl::StatusOr<TensorLayout> RowMajorLayout(at::IntArrayRef sizes, at::ScalarType type) {
  GW_ASSIGN_OR_RETURN(const DType dtype, DTypeOf(type));
  return TensorLayout::Make(dtype, {sizes.data(), sizes.size()});
}

}  // namespace

absl::StatusOr<DType> DTypeOf(at::ScalarType type) {
  const DType dtype = FindDType(type);
  if (dtype != DType::kUndefined) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", c10::toString(type), " is not carried; these are: ", kCarriedDTypes));
}

at::ScalarType ScalarTypeOf(DType dtype) { return kScalarTypes[static_cast<size_t>(dtype)]; }

absl::Status Codec<at::Tensor>::Encode(PayloadWriter& out, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    WriteTensorDescriptor(TensorLayout(), false, out.head());
    return absl::OkStatus();
  }
  return TorchToStatus("encoding a tensor", [&]() -> absl::Status {
    Prepared prepared;
    GW_RETURN_IF_ERROR(Prepare(tensor, out.limits(), prepared));
    const bool embedded = prepared.size_bytes <= kMaxEmbeddedBytes;
    WriteTensorDescriptor(prepared.layout, embedded, out.head());
    if (embedded) {
      const at::Tensor& shown = prepared.made.defined() ? prepared.made : tensor;
      out.head().WriteBytes(BytesOf(shown, prepared.size_bytes));
    } else {
      AttachTensor(out, tensor, std::move(prepared));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<at::Tensor> Codec<at::Tensor>::Decode(PayloadReader& in) {
  GW_ASSIGN_OR_RETURN(const TensorDescriptor descriptor,
                      ReadTensorDescriptor(in.head(), in.limits()));
  const TensorLayout& layout = descriptor.layout;
  if (layout.dtype == DType::kUndefined) return at::Tensor();
  if (descriptor.embedded) {
    Bytes bytes;
    if (!in.head().ReadBytes(descriptor.size_bytes, bytes)) {
      return in.head().EndsEarly("a tensor's elements");
    }
    GW_RETURN_IF_ERROR(CheckBools(layout, bytes));
    return TorchToStatus("receiving a tensor", [&] { return CopyIn(layout, bytes); });
  }
  GW_ASSIGN_OR_RETURN(ReceivedAttachment attachment, in.TakeAttachment(descriptor.size_bytes));
  GW_RETURN_IF_ERROR(CheckBools(layout, attachment.bytes.bytes()));
  return TorchToStatus("receiving a tensor",
                       [&] { return AdoptOrCopy(layout, std::move(attachment)); });
}

absl::StatusOr<TensorView> ToView(const at::Tensor& tensor, const ValueLimits& limits) {
  if (!tensor.defined()) return TensorView();
  return TorchToStatus("viewing a tensor", [&]() -> absl::StatusOr<TensorView> {
    Prepared prepared;
    GW_RETURN_IF_ERROR(Prepare(tensor, limits, prepared));
    auto held = std::make_shared<const at::Tensor>(
        prepared.made.defined() ? std::move(prepared.made) : tensor);
    return TensorView{prepared.layout, BufferOf(std::move(held), prepared.size_bytes)};
  });
}

absl::StatusOr<at::Tensor> FromView(const TensorView& view, const ValueLimits& limits) {
  GW_RETURN_IF_ERROR(view.Validate(limits));
  if (!view.defined()) return at::Tensor();
  return TorchToStatus("copying a tensor", [&] { return CopyIn(view.layout, view.bytes.bytes()); });
}

absl::StatusOr<at::Tensor> Empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  return TorchToStatus("Empty", [&] { return at::Tensor(at::detail::empty_cpu(sizes, dtype)); });
}

absl::StatusOr<at::Tensor> Zeros(at::IntArrayRef sizes, at::ScalarType dtype) {
  return TorchToStatus("Zeros",
                       [&] { return at::Tensor(at::detail::empty_cpu(sizes, dtype)).zero_(); });
}

absl::StatusOr<at::Tensor> FromBytes(Bytes bytes, at::IntArrayRef sizes, at::ScalarType dtype) {
  return FromBuffer({.bytes = Buffer(bytes, nullptr), .exclusive = false}, sizes, dtype);
}

absl::StatusOr<at::Tensor> FromBuffer(ReceivedAttachment attachment, at::IntArrayRef sizes,
                                      at::ScalarType dtype) {
  TensorView view;
  GW_ASSIGN_OR_RETURN(view.layout, RowMajorLayout(sizes, dtype));
  view.bytes = attachment.bytes;
  GW_RETURN_IF_ERROR(view.Validate({.max_tensor_bytes = std::numeric_limits<int64_t>::max()}));
  return TorchToStatus("FromBuffer",
                       [&] { return AdoptOrCopy(view.layout, std::move(attachment)); });
}

absl::StatusOr<at::Tensor> Cat(at::TensorList tensors, int64_t dim) {
  return TorchToStatus("Cat", [&] { return at::_ops::cat::call(tensors, dim); });
}

}  // namespace gradwire::rpc
