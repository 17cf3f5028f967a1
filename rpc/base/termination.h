// SIGTERM and SIGINT as a future, for programs that leave instead of dying.
//
//   int main(…) {
//     TerminationSignals signals;             // first: threads that exist already would be hit
//     …
//     signals.received().Wait(absl::InfiniteFuture());
//     agent->Leave(absl::Seconds(3));
//   }
//
// The second signal ends the process at once, as it does by default: for who can't wait.
//
// Ownership:     one object a process, made and destroyed by its first thread; destroying it gives
//                the thread its signal mask back.
// Thread-safety: received() is thread-safe.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "rpc/base/future.h"

namespace gradwire {

class TerminationSignals {
 public:
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Ready with the number of the first signal that came; CANCELLED when this object goes without.
  Future<int> received() const { return received_; }

 private:
  void Run(Promise<int> promise);

  sigset_t signals_;
  sigset_t old_mask_;
  Future<int> received_;
  std::atomic<bool> stopping_{false};  // set before the thread is woken; nothing else hangs on it
  std::thread thread_;
};

// While it lives, the first signal ends the process at once, with a line on stderr and status 1:
// for the start, while there is nothing yet to be put in order, and waits that know no signal.
//
// Thread-safety: made and destroyed by one thread.
class ExitOnTermination {
 public:
  // signals: must outlive it. program: for the line.
  ExitOnTermination(const TerminationSignals& signals, std::string program);
  ~ExitOnTermination();
  ExitOnTermination(const ExitOnTermination&) = delete;
  ExitOnTermination& operator=(const ExitOnTermination&) = delete;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the signals' continuation outlives this object
};

}  // namespace gradwire
