// Time as an injected seam: reading it, and being called when it has come.
//
// Twin:          Clock::Real() here; SimClock in sim.h (virtual time, deterministic).
// Time:          monotonic. absl::Time is used as its type, but a value says nothing about the wall
//                clock: compare and subtract only. WallNow() is for logs and first incarnations.
// Thread-safety: all methods thread-safe. Timers run on the clock's one timer thread (real) or in
//                the event loop (simulated): keep them short, take locks, never block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "rpc/base/id.h"

namespace gradwire {

using TimerId = Id<struct TimerTag>;

class Clock {
 public:
  virtual ~Clock() = default;

  // Monotonic.
  virtual absl::Time Now() = 0;
  // Nanoseconds since the Unix epoch; may jump.
  virtual int64_t WallNowNanos() = 0;

  // Runs `fn` once, not before `at`. Never runs it inside the call itself.
  virtual TimerId CallAt(absl::Time at, std::function<void()> fn) = 0;
  // True: `fn` will not run. False: it ran, runs now on the timer thread, or never existed.
  // Doesn't wait for a running `fn`; `fn` must hold what it uses by weak_ptr or Gate.
  virtual bool CancelTimer(TimerId id) = 0;

  TimerId CallAfter(absl::Duration delay, std::function<void()> fn) {
    return CallAt(Now() + delay, std::move(fn));
  }

  // The process's real clock; lives until the process ends. Its thread starts with the first timer.
  static Clock& Real();
};

}  // namespace gradwire
