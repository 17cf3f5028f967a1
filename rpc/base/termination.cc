#include "rpc/base/termination.h"

#include <pthread.h>

#include <utility>

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

}  // namespace gradwire
