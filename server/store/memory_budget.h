// MemoryBudget: the bytes that all tables of a server together may take (--memory-limit).
//
// Stores reserve before they take memory and give back what they free, so that a request which
// would go over the limit is refused whole while everything else goes on being served.
//
// Thread-safety: all methods thread-safe.
// Limits:        limit_bytes -> RESOURCE_EXHAUSTED naming the limit, the use, and the flag.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gradwire::server {

class MemoryBudget {
 public:
  // limit_bytes: 0 = no limit.
  explicit MemoryBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Takes `bytes` for `what` ("rows of table emb"). RESOURCE_EXHAUSTED, nothing taken: over the
  // limit.
  absl::Status Reserve(size_t bytes, absl::string_view what);
  // Gives back what was reserved.
  void Release(size_t bytes);

  size_t limit_bytes() const { return limit_bytes_; }
  size_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  // Reservations that were refused since the start; for the statistics.
  size_t refused_count() const { return refused_count_.load(std::memory_order_relaxed); }

 private:
  const size_t limit_bytes_;
  // Counters, each exact by itself; nothing else is published through them, hence relaxed.
  std::atomic<size_t> used_bytes_{0};
  std::atomic<size_t> refused_count_{0};
};

// What one owner holds of a budget; gives it back when it goes. Belongs to one thread at a time.
class BudgetShare {
 public:
  // budget: may be null (no limit); must outlive this.
  explicit BudgetShare(MemoryBudget* budget = nullptr) : budget_(budget) {}
  BudgetShare(BudgetShare&& other) noexcept
      : budget_(other.budget_), held_bytes_(std::exchange(other.held_bytes_, 0)) {}
  BudgetShare& operator=(BudgetShare&& other) noexcept;
  ~BudgetShare() { Release(held_bytes_); }

  absl::Status Reserve(size_t bytes, absl::string_view what);
  // bytes: at most held_bytes().
  void Release(size_t bytes);
  size_t held_bytes() const { return held_bytes_; }

 private:
  MemoryBudget* budget_;
  size_t held_bytes_ = 0;
};

}  // namespace gradwire::server
