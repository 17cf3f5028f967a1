// Takes a ReceivedPayload apart, value by value. All of it comes from a peer.
//
// Thread-safety: none; one reader, one thread.
// Errors:        INVALID_ARGUMENT.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/tensor/byte_reader.h"
#include "rpc/tensor/payload.h"
#include "rpc/tensor/value_limits.h"

namespace gradwire::rpc {

class PayloadReader {
 public:
  // Shows `payload`, which must outlive the reader.
  explicit PayloadReader(ReceivedPayload& payload, const ValueLimits& limits = {})
      : payload_(payload), limits_(limits), head_(payload.head.bytes()) {}

  ByteReader& head() { return head_; }
  const ValueLimits& limits() const { return limits_; }

  // The next `count` bytes of the head, sharing its owner.
  absl::StatusOr<Buffer> TakeFromHead(size_t count);
  // Moves the next attachment out; it must have exactly `size_bytes`.
  absl::StatusOr<ReceivedAttachment> TakeAttachment(uint64_t size_bytes);

  // Refuses what is left over, in the head or of the attachments.
  absl::Status Finish() const;

 private:
  ReceivedPayload& payload_;
  const ValueLimits limits_;
  ByteReader head_;
  size_t next_attachment_ = 0;
};

}  // namespace gradwire::rpc
