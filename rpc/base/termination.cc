#include "rpc/base/termination.h"

#include <pthread.h>

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/status/statusor.h"
#include "rpc/base/mutex.h"
#include "rpc/base/status.h"

namespace gradwire {

TerminationSignals::TerminationSignals() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  // Every thread made from now on inherits it; the one below takes the signals.
  GW_CHECK(pthread_sigmask(SIG_BLOCK, &signals_, &old_mask_) == 0);
  Promise<int> promise;
  received_ = promise.future();
  thread_ =
      std::thread([this, promise = std::move(promise)]() mutable { Run(std::move(promise)); });
}

TerminationSignals::~TerminationSignals() {
  stopping_ = true;
  // It waits for the signal, and takes it for what it is.
  // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void TerminationSignals::Run(Promise<int> promise) {
  pthread_setname_np(pthread_self(), "gw-signals");
  while (true) {
    int number = 0;
    if (sigwait(&signals_, &number) != 0) continue;
    if (stopping_) return;
    if (promise.Set(number)) continue;
    // The second one: what it does by default.
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    raise(number);
  }
}

struct ExitOnTermination::State {
  Mutex mu;
  bool active GW_GUARDED_BY(mu) = true;
};

ExitOnTermination::ExitOnTermination(const TerminationSignals& signals, std::string program)
    : state_(std::make_shared<State>()) {
  signals.received().OnReady(
      [state = state_, program = std::move(program)](const absl::StatusOr<int>& number) {
        if (!number.ok()) return;
        MutexLock lock(state->mu);
        if (!state->active) return;
        std::cerr << program << ": interrupted by signal " << *number << " while starting\n"
                  << std::flush;
        std::_Exit(1);
      });
}

ExitOnTermination::~ExitOnTermination() {
  MutexLock lock(state_->mu);
  state_->active = false;
}

}  // namespace gradwire
