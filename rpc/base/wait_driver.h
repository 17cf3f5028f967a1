// WaitDriver: a thread that waits for a result does the work of the polling thread that would bring
// it, which saves the wake-ups of handing it over.
//
// Only one thread drives at a time. Thread-safety: all methods thread-safe. Locks: none is held by
// the caller of Drive; Woken and Kick may be called under none either.
#pragma once

#include <atomic>
#include <memory>

#include "absl/time/time.h"

namespace gradwire {

class WaitDriver {
 public:
  virtual ~WaitDriver() = default;

  // Handles events on this thread (ThreadRole::kDriving) until `done` is set or `deadline` passed:
  // true. False at once if that is not possible now: the caller sleeps, and Woken() must follow
  // once when its wait is over, from whoever ends it.
  virtual bool Drive(const std::atomic<bool>& done, absl::Time deadline) = 0;
  virtual void Woken() = 0;

  // The `done` of whoever drives was set, perhaps by a thread that handles no events here.
  virtual void Kick() = 0;
};

// What a future knows of where its result comes from.
class WaitDriverSource {
 public:
  virtual ~WaitDriverSource() = default;
  // Null: none.
  virtual std::shared_ptr<WaitDriver> wait_driver() = 0;
};

}  // namespace gradwire
