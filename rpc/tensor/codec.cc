#include "rpc/tensor/codec.h"

#include <algorithm>
#include <limits>

namespace gradwire::rpc {
namespace codec_internal {

absl::Status EncodeText(PayloadWriter& out, absl::string_view what, absl::string_view text) {
  const uint32_t most = out.limits().max_string_bytes;
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " of ", text.size(), " bytes, but max_string_bytes is ", most));
  }
  out.head().Write(static_cast<uint32_t>(text.size()));
  out.head().WriteBytes(AsBytes(text));
  return absl::OkStatus();
}

absl::StatusOr<std::string> DecodeText(PayloadReader& in, absl::string_view what) {
  uint32_t size = 0;
  if (!in.head().Read(size)) return in.head().EndsEarly(what);
  if (size > in.limits().max_string_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " of ", size, " bytes, but max_string_bytes is ", in.limits().max_string_bytes));
  }
  Bytes bytes;
  if (!in.head().ReadBytes(size, bytes)) return in.head().EndsEarly(what);
  return std::string(AsText(bytes));
}

absl::Status EncodeCount(PayloadWriter& out, size_t count) {
  if (count > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(count, " elements: at most 2^32 - 1 travel"));
  }
  out.head().Write(static_cast<uint32_t>(count));
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> DecodeCount(PayloadReader& in, size_t min_bytes_each) {
  uint32_t count = 0;
  if (!in.head().Read(count)) return in.head().EndsEarly("a count");
  if (count > in.head().remaining() / min_bytes_each) {
    return absl::InvalidArgumentError(absl::StrCat(count, " elements of at least ", min_bytes_each,
                                                   " bytes don't fit into the ",
                                                   in.head().remaining(), " bytes that are left"));
  }
  return count;
}

}  // namespace codec_internal

absl::Status Codec<absl::Duration>::Encode(PayloadWriter& out, absl::Duration value) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  int64_t nanos = 0;
  if (value == absl::InfiniteDuration()) {
    nanos = kMax;
  } else if (value == -absl::InfiniteDuration()) {
    nanos = kMin;
  } else {
    nanos = std::clamp(absl::ToInt64Nanoseconds(value), kMin + 1, kMax - 1);
  }
  out.head().Write(nanos);
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> Codec<absl::Duration>::Decode(PayloadReader& in) {
  int64_t nanos = 0;
  if (!in.head().Read(nanos)) return in.head().EndsEarly("a duration");
  if (nanos == std::numeric_limits<int64_t>::max()) return absl::InfiniteDuration();
  if (nanos == std::numeric_limits<int64_t>::min()) return -absl::InfiniteDuration();
  return absl::Nanoseconds(nanos);
}

absl::Status Codec<TensorView>::Encode(PayloadWriter& out, const TensorView& value) {
  GW_RETURN_IF_ERROR(value.Validate(out.limits()));
  const bool embedded = value.bytes.size() <= kMaxEmbeddedBytes;
  WriteTensorDescriptor(value.layout, embedded, out.head());
  if (embedded) {
    out.head().WriteBytes(value.bytes.bytes());
  } else {
    out.Attach(value.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorView> Codec<TensorView>::Decode(PayloadReader& in) {
  GW_ASSIGN_OR_RETURN(const TensorDescriptor descriptor,
                      ReadTensorDescriptor(in.head(), in.limits()));
  TensorView view{.layout = descriptor.layout, .bytes = {}};
  if (!view.defined()) return view;
  if (descriptor.embedded) {
    GW_ASSIGN_OR_RETURN(view.bytes, in.TakeFromHead(descriptor.size_bytes));
  } else {
    GW_ASSIGN_OR_RETURN(ReceivedAttachment attachment, in.TakeAttachment(descriptor.size_bytes));
    view.bytes = std::move(attachment.bytes);
  }
  GW_RETURN_IF_ERROR(view.Validate(in.limits()));
  return view;
}

}  // namespace gradwire::rpc
