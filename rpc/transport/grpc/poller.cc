#include "rpc/transport/grpc/poller.h"

#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "rpc/base/executor.h"

namespace gradwire::rpc {
namespace {

using SteadyClock = std::chrono::steady_clock;

// After this many fruitless polls in a row, polling waits for events that come quickly again.
constexpr int kMaxFruitless = 8;

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
  const auto spin = std::chrono::nanoseconds(absl::ToInt64Nanoseconds(spin_));
  const bool may_spin = spin.count() > 0;
  int fruitless = 0;
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    const SteadyClock::time_point blocked_at =
        may_spin ? SteadyClock::now() : SteadyClock::time_point();
    if (!queue_->Next(&tag, &ok)) return;
    TakeFromGrpc(tag);
    static_cast<PollTag*>(tag)->Done(ok);
    if (!may_spin) continue;
    if (fruitless >= kMaxFruitless) {
      // An event that came this quickly would have been caught by polling.
      if (SteadyClock::now() - blocked_at > 4 * spin) continue;
      fruitless = kMaxFruitless - 1;
    }
    const long preempted = PreemptionCount();
    bool any = false;
    SteadyClock::time_point until = SteadyClock::now() + spin;
    while (SteadyClock::now() < until) {
      const auto status = queue_->AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
      if (status == grpc::CompletionQueue::SHUTDOWN) return;
      if (status == grpc::CompletionQueue::TIMEOUT) continue;
      TakeFromGrpc(tag);
      static_cast<PollTag*>(tag)->Done(ok);
      any = true;
      until = SteadyClock::now() + spin;
    }
    if (PreemptionCount() != preempted) {
      fruitless = kMaxFruitless;
    } else {
      fruitless = any ? 0 : fruitless + 1;
    }
  }
}

}  // namespace gradwire::rpc
