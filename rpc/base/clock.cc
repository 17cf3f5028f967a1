#include "rpc/base/clock.h"

#include <pthread.h>

#include <chrono>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>

#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"

namespace gradwire {
namespace {

class RealClock final : public Clock {
 public:
  RealClock() : wall_start_(absl::Now()), steady_start_(std::chrono::steady_clock::now()) {}

  // Monotonic, counted from the wall clock's reading at the start of the process, so that a
  // deadline made of absl::Now() + d means what its author expects.
  absl::Time Now() override {
    return wall_start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
  }

  int64_t WallNowNanos() override { return absl::GetCurrentTimeNanos(); }

  TimerId CallAt(absl::Time at, std::function<void()> fn) override {
    MutexLock lock(mu_);
    if (!started_) {
      started_ = true;
      std::thread([this] { Run(); }).detach();
    }
    const TimerId id{++last_id_};
    const auto entry = timers_.emplace(std::make_pair(at, id.value), std::move(fn)).first;
    times_.emplace(id.value, at);
    if (entry == timers_.begin()) earlier_.NotifyOne();
    return id;
  }

  bool CancelTimer(TimerId id) override {
    std::function<void()> dropped;  // destroyed outside the lock
    MutexLock lock(mu_);
    const auto time = times_.find(id.value);
    if (time == times_.end()) return false;
    const auto entry = timers_.find(std::make_pair(time->second, id.value));
    dropped = std::move(entry->second);
    timers_.erase(entry);
    times_.erase(time);
    lock.Unlock();
    return true;
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "gw-timer");
    ScopedThreadRole role(ThreadRole::kPolling);
    MutexLock lock(mu_);
    while (true) {
      if (timers_.empty()) {
        earlier_.Wait(mu_);
        continue;
      }
      const auto first = timers_.begin();
      const absl::Duration left = first->first.first - Now();
      if (left > absl::ZeroDuration()) {
        earlier_.WaitFor(mu_, left);
        continue;
      }
      std::function<void()> fn = std::move(first->second);
      times_.erase(first->first.second);
      timers_.erase(first);
      lock.Unlock();
      fn();
      fn = nullptr;
      lock.Lock();
    }
  }

  const absl::Time wall_start_;
  const std::chrono::steady_clock::time_point steady_start_;
  Mutex mu_;
  CondVar earlier_;
  bool started_ GW_GUARDED_BY(mu_) = false;
  uint64_t last_id_ GW_GUARDED_BY(mu_) = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> timers_ GW_GUARDED_BY(mu_);
  std::unordered_map<uint64_t, absl::Time> times_ GW_GUARDED_BY(mu_);
};

}  // namespace

Clock& Clock::Real() {
  // Never destroyed: its thread may outlive main.
  static RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace gradwire
