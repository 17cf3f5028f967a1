#include "rpc/transport/grpc/poller.h"

#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "rpc/base/executor.h"
#include "rpc/transport/grpc/spin_policy.h"

namespace gradwire::rpc {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Involuntary context switches of this thread: somebody else needed the core.
long PreemptionCount() {
  rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace

Poller::Poller(std::unique_ptr<grpc::CompletionQueue> queue, std::string thread_name,
               absl::Duration spin)
    : queue_(std::move(queue)),
      spin_(std::thread::hardware_concurrency() > 1 ? spin : absl::ZeroDuration()),
      thread_([this, name = std::move(thread_name)] { Run(name); }) {}

Poller::~Poller() {
  queue_->Shutdown();
  thread_.join();
}

void Poller::Run(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  ScopedThreadRole role(ThreadRole::kPolling);
  SpinPolicy policy{std::chrono::nanoseconds(absl::ToInt64Nanoseconds(spin_))};
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    const SteadyClock::time_point blocked_at =
        policy.enabled() ? SteadyClock::now() : SteadyClock::time_point();
    if (!queue_->Next(&tag, &ok)) return;
    TakeFromGrpc(tag);
    static_cast<PollTag*>(tag)->Done(ok);
    if (!policy.enabled()) continue;
    SteadyClock::time_point now = SteadyClock::now();
    if (!policy.ShouldPoll(blocked_at, now)) continue;
    const long preempted = PreemptionCount();
    bool any = false;
    for (SteadyClock::time_point until = now + policy.spin(); now < until;
         now = SteadyClock::now()) {
      const auto status = queue_->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
      if (status == grpc::CompletionQueue::SHUTDOWN) return;
      if (status == grpc::CompletionQueue::TIMEOUT) continue;
      TakeFromGrpc(tag);
      static_cast<PollTag*>(tag)->Done(ok);
      any = true;
      until = SteadyClock::now() + policy.spin();
    }
    policy.Polled(now, any, PreemptionCount() != preempted);
  }
}

}  // namespace gradwire::rpc
