// Any bytes either are a tensor that is whole, and comes back the same from its own bytes, or are
// refused with INVALID_ARGUMENT.
//
// Input: a head; after the first 0xfe byte whatever follows is the attachment.
#include <cstddef>
#include <cstdint>
#include <string>

#include "rpc/base/status.h"
#include "rpc/tensor/codec.h"

namespace gradwire::rpc {
namespace {

void Try(absl::string_view head, absl::string_view attachment, bool attach) {
  ReceivedPayload payload;
  payload.head = Buffer::FromString(std::string(head));
  if (attach) payload.attachments.push_back({Buffer::FromString(std::string(attachment)), false});
  PayloadReader in(payload);
  const absl::StatusOr<TensorView> view = Codec<TensorView>::Decode(in);
  if (!view.ok()) {
    GW_CHECK(view.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  GW_CHECK(view->Validate({}).ok());
  GW_CHECK(view->bytes.size() <= head.size() + attachment.size());
  PayloadWriter out(Sharing::kCopy);
  GW_CHECK(Codec<TensorView>::Encode(out, *view).ok());
  const Payload again = out.TakePayload();
  ReceivedPayload returned;
  returned.head = again.head;
  for (const Buffer& bytes : again.attachments) returned.attachments.push_back({bytes, false});
  PayloadReader second(returned);
  const absl::StatusOr<TensorView> back = Codec<TensorView>::Decode(second);
  GW_CHECK(back.ok() && *back == *view && second.Finish().ok());
}

}  // namespace
}  // namespace gradwire::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\xfe');
  if (cut == absl::string_view::npos) {
    gradwire::rpc::Try(input, "", false);
  } else {
    gradwire::rpc::Try(input.substr(0, cut), input.substr(cut + 1), true);
  }
  return 0;
}
