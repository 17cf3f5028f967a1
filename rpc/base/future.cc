#include "rpc/base/future.h"

#include <algorithm>
#include <thread>

namespace gradwire::future_internal {

absl::Status StateBase::WaitReady(absl::Time deadline) {
  if (ready()) return absl::OkStatus();
  BlockingRegion region;
  if (!region.status().ok()) return region.status();
  if (spin_ > absl::ZeroDuration()) {
    const absl::Time until = std::min(absl::Now() + spin_, deadline);
    do {
      for (int i = 0; i < 64; ++i) {
        if (ready()) return absl::OkStatus();
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        std::this_thread::yield();
#endif
      }
    } while (absl::Now() < until);
  }
  MutexLock lock(mu_);
  ++waiter_count_;
  while (!ready()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      --waiter_count_;
      return absl::DeadlineExceededError("the result did not arrive within the wait's deadline");
    }
    done_.WaitFor(mu_, left);
  }
  --waiter_count_;
  return absl::OkStatus();
}

void StateBase::OnReady(Task task) {
  {
    MutexLock lock(mu_);
    if (!ready()) {
      if (!continuation_) {
        continuation_ = std::move(task);
      } else {
        more_.push_back(std::move(task));
      }
      return;
    }
  }
  task();
}

void StateBase::SetCancelHandler(Task handler) {
  // The old handler, and one that comes too late, are destroyed outside the lock.
  MutexLock lock(mu_);
  if (!ready()) std::swap(cancel_handler_, handler);
  lock.Unlock();
}

Task StateBase::TakeCancelHandler() {
  MutexLock lock(mu_);
  return std::exchange(cancel_handler_, nullptr);
}

void StateBase::Publish() {
  Task first;
  Task cancel;
  std::vector<Task> more;
  {
    MutexLock lock(mu_);
    ready_.store(true, std::memory_order_release);
    first = std::exchange(continuation_, nullptr);
    cancel = std::exchange(cancel_handler_, nullptr);
    more.swap(more_);
    if (waiter_count_ > 0) done_.NotifyAll();
  }
  if (first) first();
  for (Task& task : more) task();
}

}  // namespace gradwire::future_internal
