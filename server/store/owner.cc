#include "server/store/owner.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire::server {

Owner::Owner(std::string thread_name)
    : thread_([this, name = std::move(thread_name)] { Loop(name); }) {}

Owner::~Owner() {
  Close();
  thread_.join();
}

absl::Status Owner::Run(TaskSize size, Task task) {
  {
    MutexLock lock(mu_);
    if (closed_) return absl::CancelledError("the parameter server is leaving");
    if (size == TaskSize::kLong || busy_ || !queue_.empty()) {
      if (queue_.size() >= kMaxQueuedCount) {
        return absl::ResourceExhaustedError(
            absl::StrCat(queue_.size(),
                         " requests wait for the rows of this parameter server; send fewer at "
                         "once or add servers"));
      }
      queue_.push_back(std::move(task));
      // Whoever is busy goes on with the thread when it is done.
      if (!busy_) work_.NotifyOne();
      return absl::OkStatus();
    }
    busy_ = true;
  }
  task();
  task = nullptr;  // not under the lock
  MutexLock lock(mu_);
  busy_ = false;
  if (!queue_.empty() || closed_) work_.NotifyOne();
  return absl::OkStatus();
}

void Owner::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  work_.NotifyOne();
}

void Owner::Loop(const std::string& thread_name) {
  pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
  MutexLock lock(mu_);
  while (true) {
    while (busy_ || (queue_.empty() && !closed_)) work_.Wait(mu_);
    if (queue_.empty()) return;
    busy_ = true;
    while (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      lock.Unlock();
      task();
      task = nullptr;
      lock.Lock();
    }
    busy_ = false;
  }
}

}  // namespace gradwire::server
