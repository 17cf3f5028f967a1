#include "rpc/transport/inproc/inproc_loop.h"

#include <pthread.h>

#include <utility>

#include "rpc/base/executor.h"

namespace gradwire::rpc {

InprocLoop::InprocLoop(const std::string& thread_name)
    : thread_([this, name = thread_name.substr(0, 15)] {
        pthread_setname_np(pthread_self(), name.c_str());
        ScopedThreadRole role(ThreadRole::kPolling);
        Run();
      }) {}

InprocLoop::~InprocLoop() { Stop(); }

bool InprocLoop::Post(std::function<void()> event) {
  MutexLock lock(mu_);
  if (stopped_) return false;
  events_.push_back(std::move(event));
  if (waiting_) {
    waiting_ = false;
    work_.NotifyOne();
  }
  return true;
}

void InprocLoop::Stop() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    work_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

void InprocLoop::Run() {
  MutexLock lock(mu_);
  while (true) {
    if (events_.empty()) {
      if (stopped_) return;
      waiting_ = true;
      work_.Wait(mu_);
      waiting_ = false;
      continue;
    }
    std::function<void()> event = std::move(events_.front());
    events_.pop_front();
    lock.Unlock();
    event();
    event = nullptr;
    lock.Lock();
  }
}

}  // namespace gradwire::rpc
