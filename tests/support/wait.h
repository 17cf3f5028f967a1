// Waiting in tests without sleeping for a fixed time.
#pragma once

#include <sched.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gradwire::testing {

// Polls until `predicate()` holds; false when `timeout` passed first.
template <class Predicate>
bool WaitUntil(Predicate predicate, absl::Duration timeout = absl::Seconds(10)) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!predicate()) {
    if (absl::Now() >= deadline) return false;
    sched_yield();
  }
  return true;
}

}  // namespace gradwire::testing
