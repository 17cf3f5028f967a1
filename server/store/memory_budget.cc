#include "server/store/memory_budget.h"

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {

absl::Status MemoryBudget::Reserve(size_t bytes, absl::string_view what) {
  // Over the limit for a moment at most: a neighbour may then be refused that would have fitted.
  const size_t before = used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_bytes_ == 0 || (before <= limit_bytes_ && bytes <= limit_bytes_ - before)) {
    return absl::OkStatus();
  }
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  refused_count_.fetch_add(1, std::memory_order_relaxed);
  return absl::ResourceExhaustedError(
      absl::StrCat("no ", bytes, " bytes for ", what, ": ", before, " of ", limit_bytes_,
                   " bytes are in use; drop tables or raise --memory-limit"));
}

void MemoryBudget::Release(size_t bytes) {
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

BudgetShare& BudgetShare::operator=(BudgetShare&& other) noexcept {
  if (this != &other) {
    Release(held_bytes_);
    budget_ = other.budget_;
    held_bytes_ = std::exchange(other.held_bytes_, 0);
  }
  return *this;
}

absl::Status BudgetShare::Reserve(size_t bytes, absl::string_view what) {
  if (budget_ != nullptr) GW_RETURN_IF_ERROR(budget_->Reserve(bytes, what));
  held_bytes_ += bytes;
  return absl::OkStatus();
}

void BudgetShare::Release(size_t bytes) {
  if (budget_ != nullptr) budget_->Release(bytes);
  held_bytes_ -= bytes;
}

}  // namespace gradwire::server
