// Values through their codecs and back, without a wire.
#pragma once

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "rpc/tensor/values.h"

namespace gradwire::rpc::testing {

// What the other side gets of `payload`; attachments are exclusive where the bytes are ours alone.
inline ReceivedPayload Arrive(const Payload& payload, bool exclusive = false) {
  ReceivedPayload received;
  received.head = payload.head;
  for (const Buffer& bytes : payload.attachments)
    received.attachments.push_back({bytes, exclusive});
  return received;
}

template <class T>
absl::StatusOr<Payload> EncodeOne(const T& value, Sharing sharing = Sharing::kBorrow,
                                  const ValueLimits& limits = {}) {
  PayloadWriter out(sharing, limits, "test.f");
  out.BeginArgument(1);
  GW_RETURN_IF_ERROR(Codec<T>::Encode(out, value));
  return out.TakePayload();
}

template <class T>
absl::StatusOr<T> DecodeOne(ReceivedPayload received, const ValueLimits& limits = {}) {
  PayloadReader in(received, limits);
  absl::StatusOr<T> value = Codec<T>::Decode(in);
  GW_RETURN_IF_ERROR(value.status());
  GW_RETURN_IF_ERROR(in.Finish());
  return value;
}

// From the bytes of a head, given as hex.
template <class T>
absl::StatusOr<T> DecodeHex(absl::string_view hex) {
  ReceivedPayload received;
  received.head = Buffer::FromString(absl::HexStringToBytes(hex));
  return DecodeOne<T>(std::move(received));
}

template <class T>
std::string EncodeHex(const T& value) {
  const absl::StatusOr<Payload> payload = EncodeOne(value);
  return payload.ok() ? absl::BytesToHexString(AsText(payload->head.bytes()))
                      : payload.status().ToString();
}

template <class T>
absl::StatusOr<T> RoundTrip(const T& value) {
  GW_ASSIGN_OR_RETURN(Payload payload, EncodeOne(value));
  return DecodeOne<T>(Arrive(payload));
}

}  // namespace gradwire::rpc::testing
