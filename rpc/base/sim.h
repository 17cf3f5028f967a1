// The simulated twins of Clock and Executor: one event queue, virtual time, no threads.
//
// Everything that happens in a simulated world is an event on one SimLoop: timers, posted tasks,
// deliveries of the simulated transport. Events at the same virtual time run in the order in which
// they were added, so that a seed determines the whole run. Thread-safety: none; one thread owns
// the loop and all that runs in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/base/executor.h"

namespace gradwire {

class SimLoop final : public Clock {
 public:
  SimLoop() = default;

  absl::Time Now() override { return now_; }
  // The virtual time, as if it had begun with the epoch plus one day (so that it is never 0).
  int64_t WallNowNanos() override { return absl::ToUnixNanos(now_); }
  TimerId CallAt(absl::Time at, std::function<void()> fn) override;
  bool CancelTimer(TimerId id) override;

  // Runs the next event; false when there is none.
  bool Step();
  // Runs events until `done` holds; false when none is left, or virtual time passes `until`, first.
  bool RunUntil(const std::function<bool()>& done, absl::Time until);
  // Runs all events up to and including virtual time `until`, then sets the time to it.
  void RunFor(absl::Duration time);

  uint64_t events_run() const { return events_run_; }
  size_t pending_count() const { return events_.size(); }

 private:
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(24);
  uint64_t last_id_ = 0;
  uint64_t events_run_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> events_;
  std::unordered_map<uint64_t, absl::Time> times_;
};

// Runs tasks as events of a loop, each `delay` after it was posted. Waiting is impossible in there:
// a blocking wait fails with FAILED_PRECONDITION.
class SimExecutor final : public Executor {
 public:
  explicit SimExecutor(SimLoop* loop, absl::Duration delay = absl::Microseconds(1))
      : loop_(loop), delay_(delay) {}
  absl::Status Post(Task task) override;
  // Tasks posted from now on are refused, waiting ones never run (a killed process).
  void Kill() { alive_ = nullptr; }

 private:
  SimLoop* const loop_;
  const absl::Duration delay_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace gradwire
