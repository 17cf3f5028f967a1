// Collects values as a Payload: head bytes, attachments, and what was borrowed for them.
//
// Thread-safety: none; one writer, one thread.
#pragma once

#include <cstdint>
#include <utility>

#include "rpc/base/buffer.h"
#include "rpc/tensor/borrow_guard.h"
#include "rpc/tensor/byte_writer.h"
#include "rpc/tensor/payload.h"
#include "rpc/tensor/value_limits.h"

namespace gradwire::rpc {

// Whose memory the bytes of a tensor beyond kMaxEmbeddedBytes are.
enum class Sharing {
  // Above kBorrowBytes the caller's, watched by the guard; up to it a copy. For arguments.
  kBorrow,
  // A copy, always.
  kCopy,
  // The value's own where nobody else holds it, else a copy. For results: their values are given
  // up, and one that aliases live weights is a snapshot.
  kTakeOrCopy,
};

class PayloadWriter {
 public:
  // `function`: text with static lifetime, for messages of the guard.
  explicit PayloadWriter(Sharing sharing, const ValueLimits& limits = {},
                         absl::string_view function = "")
      : sharing_(sharing), limits_(limits), borrows_(function) {}

  ByteWriter& head() { return head_; }
  const ValueLimits& limits() const { return limits_; }
  Sharing sharing() const { return sharing_; }

  void Attach(Buffer bytes) { attachments_.push_back(std::move(bytes)); }

  // Says which argument comes next, counted from 1.
  void BeginArgument(uint32_t argument) { argument_ = argument; }
  // Remembers a loan of the current argument.
  void Lend(Loan loan) {
    loan.argument = argument_;
    borrows_.Add(std::move(loan));
  }

  // What was written. The writer is spent.
  Payload TakePayload() {
    return Payload{Buffer::FromString(head_.Take()), std::move(attachments_)};
  }
  BorrowGuard TakeBorrows() { return std::move(borrows_); }

 private:
  const Sharing sharing_;
  const ValueLimits limits_;
  ByteWriter head_;
  absl::InlinedVector<Buffer, 2> attachments_;
  uint32_t argument_ = 0;
  BorrowGuard borrows_;
};

}  // namespace gradwire::rpc
