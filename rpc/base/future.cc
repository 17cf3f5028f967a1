#include "rpc/base/future.h"

#include <utility>

namespace gradwire::future_internal {

absl::Status StateBase::WaitReady(absl::Time deadline) {
  if (ready()) return absl::OkStatus();
  BlockingRegion region;
  if (!region.status().ok()) return region.status();
  WaitByDriving(deadline);
  absl::Status status;
  std::shared_ptr<WaitDriver> woken;
  {
    MutexLock lock(mu_);
    ++waiter_count_;
    while (!ready()) {
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        status =
            absl::DeadlineExceededError("the result did not arrive within the wait's deadline");
        break;
      }
      done_.WaitFor(mu_, left);
    }
    // The last waiter gone without a result: nobody is asleep here any more.
    if (--waiter_count_ == 0 && std::exchange(counted_asleep_, false)) woken = std::move(driver_);
  }
  if (woken != nullptr) woken->Woken();
  return status;
}

void StateBase::WaitByDriving(absl::Time deadline) {
  std::shared_ptr<WaitDriverSource> source;
  {
    MutexLock lock(mu_);
    if (source_ == nullptr || driver_ != nullptr) return;
    source = source_;
  }
  const std::shared_ptr<WaitDriver> driver = source->wait_driver();
  if (driver == nullptr) return;
  {
    MutexLock lock(mu_);
    if (ready() || driver_ != nullptr) return;
    driver_ = driver;
  }
  const bool drove = driver->Drive(ready_, deadline);
  {
    MutexLock lock(mu_);
    if (!drove && !ready()) {
      counted_asleep_ = true;
      return;
    }
    driver_ = nullptr;
  }
  if (!drove) driver->Woken();
}

void StateBase::SetWaitDriver(std::shared_ptr<WaitDriverSource> source) {
  MutexLock lock(mu_);
  if (!ready()) std::swap(source_, source);
  lock.Unlock();  // the old one, or one that comes too late, is destroyed outside
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
  std::shared_ptr<WaitDriverSource> source;
  std::shared_ptr<WaitDriver> driver;
  bool asleep = false;
  {
    MutexLock lock(mu_);
    ready_.store(true, std::memory_order_release);
    first = std::exchange(continuation_, nullptr);
    cancel = std::exchange(cancel_handler_, nullptr);
    more.swap(more_);
    source.swap(source_);
    driver = driver_;
    asleep = std::exchange(counted_asleep_, false);
    if (asleep) driver_ = nullptr;
    if (waiter_count_ > 0) done_.NotifyAll();
  }
  if (driver != nullptr) asleep ? driver->Woken() : driver->Kick();
  if (first) first();
  for (Task& task : more) task();
}

}  // namespace gradwire::future_internal
