// Arguments or a result as bytes: what the typed face hands to the agent and gets from it.
//
// Layout of `head`: proto/gradwire/v1/values.md. `attachments` are the bytes of larger tensors, in
// the order in which the head mentions them; they travel without being copied.
#pragma once

#include <cstddef>
#include <span>

#include "absl/container/inlined_vector.h"
#include "rpc/base/buffer.h"

namespace gradwire::rpc {

// Outgoing. The bytes must stay unchanged while any copy of the Payload lives.
struct Payload {
  Buffer head;
  absl::InlinedVector<Buffer, 2> attachments;

  size_t size_bytes() const {
    size_t total = head.size();
    for (const Buffer& attachment : attachments) total += attachment.size();
    return total;
  }
};

// Incoming bytes of one tensor.
struct ReceivedAttachment {
  Buffer bytes;
  // Nobody else sees these bytes, and they are 64-byte aligned: a tensor may adopt and change them
  // for as long as it keeps bytes.owner(). Otherwise they must be copied out.
  bool exclusive = false;
};

// Incoming. Comes from a peer: nothing in it has been checked but the sizes.
struct ReceivedPayload {
  Buffer head;
  absl::InlinedVector<ReceivedAttachment, 2> attachments;

  size_t size_bytes() const {
    size_t total = head.size();
    for (const ReceivedAttachment& attachment : attachments) total += attachment.bytes.size();
    return total;
  }
};

}  // namespace gradwire::rpc
