#include "rpc/base/mutex.h"

#include <algorithm>
#include <chrono>

namespace gradwire {

void CondVar::Wait(Mutex& mu) GW_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
  cv_.wait(lock);
  lock.release();
}

bool CondVar::WaitFor(Mutex& mu, absl::Duration timeout) GW_NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
  bool notified = true;
  // A day is far above every limit of ours and far below where chrono's arithmetic overflows.
  const auto wait =
      absl::ToChronoNanoseconds(std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24)));
  notified = cv_.wait_for(lock, wait) == std::cv_status::no_timeout;
  lock.release();
  return notified;
}

}  // namespace gradwire
