// What a call borrowed from its caller, and whether it is still as it was.
//
// Protocol:      PROTOCOL.md, Calls: "arguments over 64 KiB are borrowed until the reply". Ask
//                Check() once, when the reply is there.
// Ownership:     keeps the borrowed tensors alive.
// Thread-safety: Check may run on any thread, one at a time; the version of a tensor is an atomic.
// Limits:        sees changes that libtorch's operators make (they count versions), not writes
//                through raw pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// One borrowed thing.
struct Loan {
  std::shared_ptr<const void> thing;
  // Reads the version of `thing` as it is now.
  uint64_t (*version_of)(const void* thing) = nullptr;
  uint64_t version = 0;
  // Counted from 1.
  uint32_t argument = 0;
};

class BorrowGuard {
 public:
  BorrowGuard() = default;
  // `function`: text with static lifetime, for messages.
  explicit BorrowGuard(absl::string_view function) : function_(function) {}

  void Add(Loan loan) { loans_.push_back(std::move(loan)); }
  bool empty() const { return loans_.empty(); }

  // FAILED_PRECONDITION naming function and argument when something borrowed has changed.
  absl::Status Check() const;

 private:
  absl::string_view function_;
  absl::InlinedVector<Loan, 1> loans_;
};

}  // namespace gradwire::rpc
