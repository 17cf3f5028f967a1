#include "rpc/transport/grpc/poller.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "rpc/base/executor.h"

namespace gradwire::rpc {
namespace {

using SteadyClock = std::chrono::steady_clock;

gpr_timespec ToGpr(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_REALTIME);
  const timespec time = absl::ToTimespec(deadline);
  return {time.tv_sec, static_cast<int32_t>(time.tv_nsec), GPR_CLOCK_REALTIME};
}

// CPU time of this thread. What passes without it is time that somebody else had the core.
std::chrono::nanoseconds CpuTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

Poller::Poller(std::unique_ptr<grpc::CompletionQueue> queue, std::string thread_name,
               absl::Duration spin)
    : core_(std::make_shared<Core>(std::move(queue), spin)),
      thread_([core = core_, name = std::move(thread_name)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        core->Run();
      }) {}

Poller::~Poller() {
  core_->StopDriving();
  core_->queue()->Shutdown();
  thread_.join();
  core_->Destroy();
}

Poller::Core::Core(std::unique_ptr<grpc::CompletionQueue> queue, absl::Duration spin)
    : queue_(std::move(queue)),
      policy_(std::chrono::nanoseconds(
          std::thread::hardware_concurrency() > 1 ? absl::ToInt64Nanoseconds(spin) : 0)),
      alarm_(std::make_unique<grpc::Alarm>()) {}

void Poller::Core::Handle(void* tag, bool ok) {
  TakeFromGrpc(tag);
  static_cast<PollTag*>(tag)->Done(ok);
}

void Poller::Core::Run() {
  ScopedThreadRole role(ThreadRole::kPolling);
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    const Time blocked_at = policy_.enabled() ? SteadyClock::now() : Time();
    if (!queue_->Next(&tag, &ok)) return;
    Handle(tag, ok);
    if (policy_.enabled() && policy_.ShouldPoll(blocked_at, SteadyClock::now()) && !Spin(nullptr)) {
      return;
    }
    if (MayPark()) Park();
  }
}

bool Poller::Core::MayPark() {
  if (!wanted_.load(std::memory_order_relaxed)) return false;
  MutexLock lock(mu_);
  return sleeper_count_ == 0 && SteadyClock::now() >= stays_until_;
}

bool Poller::Core::Spin(const std::atomic<bool>* done) {
  void* tag = nullptr;
  bool ok = false;
  bool any = false;
  Time now = SteadyClock::now();
  const Time started = now;
  const std::chrono::nanoseconds used = CpuTime();
  for (Time until = now + policy_.spin(); now < until;) {
    const auto status = queue_->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
    if (status == grpc::CompletionQueue::SHUTDOWN) return false;
    if (status == grpc::CompletionQueue::TIMEOUT) {
      now = SteadyClock::now();
      continue;
    }
    Handle(tag, ok);
    any = true;
    if (done != nullptr ? done->load(std::memory_order_acquire) : MayPark()) break;
    now = SteadyClock::now();
    until = now + policy_.spin();
  }
  policy_.Polled(now, any, SteadyClock::now() - started > CpuTime() - used + kPreempted);
  return true;
}

void Poller::Core::Park() {
  MutexLock lock(mu_);
  if (sleeper_count_ > 0) return;
  wanted_.store(false, std::memory_order_relaxed);
  parked_ = true;
  absl::Duration park = kShortestPark;
  while (!stopped_) {
    if (!driven_ && sleeper_count_ > 0) {
      stays_until_ = SteadyClock::now() + kStay;
      break;
    }
    drove_ = false;
    changed_.WaitFor(mu_, park);
    if (driven_ || drove_) {
      park = std::min(2 * park, kLongestPark);
    } else if (sleeper_count_ == 0) {
      break;
    }
  }
  parked_ = false;
}

bool Poller::Core::Drive(const std::atomic<bool>& done, absl::Time deadline) {
  {
    MutexLock lock(mu_);
    if (stopped_ || !parked_ || driven_) {
      ++sleeper_count_;
      if (!stopped_) wanted_.store(true, std::memory_order_relaxed);
      return false;
    }
    driven_ = true;
    drove_ = true;
    driving_thread_ = std::this_thread::get_id();
  }
  struct Leave {
    ~Leave() { core->StopDrivingHere(); }
    Core* core;
  } leave{this};
  ScopedThreadRole role(ThreadRole::kDriving);
  void* tag = nullptr;
  bool ok = false;
  bool poll = policy_.enabled() && policy_.MayPoll(SteadyClock::now());
  while (!done.load(std::memory_order_acquire)) {
    if (poll) {
      if (!Spin(&done)) return true;
      if (done.load(std::memory_order_acquire)) return true;
    }
    {
      MutexLock lock(mu_);
      if (stopped_) return true;
    }
    const Time blocked_at = policy_.enabled() ? SteadyClock::now() : Time();
    if (queue_->AsyncNext(&tag, &ok, ToGpr(deadline)) != grpc::CompletionQueue::GOT_EVENT) {
      return true;
    }
    Handle(tag, ok);
    poll = policy_.enabled() && policy_.ShouldPoll(blocked_at, SteadyClock::now());
  }
  return true;
}

void Poller::Core::StopDrivingHere() {
  MutexLock lock(mu_);
  driven_ = false;
  driving_thread_ = std::thread::id();
  if (sleeper_count_ > 0 || stopped_) changed_.NotifyAll();
}

void Poller::Core::Woken() {
  MutexLock lock(mu_);
  --sleeper_count_;
}

void Poller::Core::Kick() {
  MutexLock lock(mu_);
  if (!driven_ || kicked_ || driving_thread_ == std::this_thread::get_id()) return;
  kicked_ = true;
  PollTag* const tag = &kick_tag_;
  HandToGrpc(tag);
  alarm_->Set(queue_.get(), gpr_time_0(GPR_CLOCK_MONOTONIC), tag);
}

void Poller::Core::KickTag::Done(bool) {
  MutexLock lock(core_->mu_);
  core_->kicked_ = false;
}

void Poller::Core::StopDriving() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  Kick();
  MutexLock lock(mu_);
  while (driven_) changed_.Wait(mu_);
}

void Poller::Core::Destroy() {
  alarm_ = nullptr;
  queue_ = nullptr;
}

}  // namespace gradwire::rpc
