// Any bytes decoded as any of several types: they are refused with INVALID_ARGUMENT, or are a value
// that encodes to something that decodes equal.
//
// Input: one byte chooses the type, one how many attachments there are; the rest is the head. The
// attachments are of 1500, 1501, … bytes.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "rpc/base/status.h"
#include "rpc/tensor/values.h"

namespace gradwire::rpc {
namespace {

enum class Color : uint8_t { kRed };

struct Inner {
  std::optional<absl::Duration> wait;
  Color color = Color::kRed;
  friend bool operator==(const Inner&, const Inner&) = default;
  GW_FIELDS(wait, color);
};
struct Outer {
  TensorView tensor;
  std::vector<Inner> inner;
  std::map<std::string, std::vector<TensorView>> tensors;
  friend bool operator==(const Outer&, const Outer&) = default;
  GW_FIELDS(tensor, inner, tensors);
};

// NaN is equal to itself here: bits are compared.
bool SameBytes(const Payload& a, const Payload& b) {
  if (AsText(a.head.bytes()) != AsText(b.head.bytes())) return false;
  if (a.attachments.size() != b.attachments.size()) return false;
  for (size_t i = 0; i < a.attachments.size(); ++i) {
    if (AsText(a.attachments[i].bytes()) != AsText(b.attachments[i].bytes())) return false;
  }
  return true;
}

ReceivedPayload Arrive(const Payload& payload) {
  ReceivedPayload received;
  received.head = payload.head;
  for (const Buffer& bytes : payload.attachments) received.attachments.push_back({bytes, false});
  return received;
}

template <class T>
Payload Encode(const T& value) {
  PayloadWriter out(Sharing::kCopy);
  GW_CHECK(Codec<T>::Encode(out, value).ok());
  return out.TakePayload();
}

template <class T>
void Try(ReceivedPayload payload) {
  PayloadReader in(payload);
  absl::StatusOr<T> value = Codec<T>::Decode(in);
  if (!value.ok()) {
    GW_CHECK(value.status().code() == absl::StatusCode::kInvalidArgument);
    return;
  }
  const Payload first = Encode(*value);
  ReceivedPayload returned = Arrive(first);
  PayloadReader second(returned);
  absl::StatusOr<T> back = Codec<T>::Decode(second);
  GW_CHECK(back.ok() && second.Finish().ok());
  if constexpr (std::equality_comparable<T> &&
                !std::is_same_v<T, std::vector<std::pair<float, double>>>) {
    GW_CHECK(*back == *value);
  }
  GW_CHECK(SameBytes(first, Encode(*back)));
}

}  // namespace
}  // namespace gradwire::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gradwire;       // NOLINT
  using namespace gradwire::rpc;  // NOLINT
  if (size < 2) return 0;
  ReceivedPayload payload;
  payload.head = Buffer::FromString({reinterpret_cast<const char*>(data) + 2, size - 2});
  for (size_t i = 0; i < data[1] % 4u; ++i) {
    payload.attachments.push_back({Buffer::FromString(std::string(1500 + i, '\1')), false});
  }
  switch (data[0] % 8) {
    case 0:
      Try<std::tuple<bool, int8_t, uint64_t, std::string>>(payload);
      break;
    case 1:
      Try<std::vector<std::string>>(payload);
      break;
    case 2:
      Try<std::map<std::string, std::optional<ByteString>>>(payload);
      break;
    case 3:
      Try<std::unordered_map<uint16_t, std::vector<bool>>>(payload);
      break;
    case 4:
      Try<Outer>(payload);
      break;
    case 5:
      Try<std::vector<std::pair<float, double>>>(payload);
      break;
    case 6:
      Try<std::tuple<TensorView, absl::Duration, TensorView>>(payload);
      break;
    case 7:
      Try<std::optional<std::vector<std::vector<std::vector<uint8_t>>>>>(payload);
      break;
  }
  return 0;
}
