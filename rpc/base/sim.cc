#include "rpc/base/sim.h"

#include <algorithm>

namespace gradwire {

TimerId SimLoop::CallAt(absl::Time at, std::function<void()> fn) {
  const uint64_t id = ++last_id_;
  const absl::Time when = std::max(at, now_);
  events_.emplace(std::make_pair(when, id), std::move(fn));
  times_.emplace(id, when);
  return TimerId{id};
}

bool SimLoop::CancelTimer(TimerId id) {
  const auto time = times_.find(id.value);
  if (time == times_.end()) return false;
  const auto event = events_.find(std::make_pair(time->second, id.value));
  const std::function<void()> dropped = std::move(event->second);  // may own what calls back here
  events_.erase(event);
  times_.erase(time);
  return true;
}

bool SimLoop::Step() {
  if (events_.empty()) return false;
  const auto first = events_.begin();
  now_ = first->first.first;
  const std::function<void()> fn = std::move(first->second);
  times_.erase(first->first.second);
  events_.erase(first);
  ++events_run_;
  ScopedThreadRole role(ThreadRole::kPolling);
  fn();
  return true;
}

bool SimLoop::RunUntil(const std::function<bool()>& done, absl::Time until) {
  while (!done()) {
    if (events_.empty() || events_.begin()->first.first > until) return false;
    Step();
  }
  return true;
}

void SimLoop::RunFor(absl::Duration time) {
  const absl::Time until = now_ + time;
  while (!events_.empty() && events_.begin()->first.first <= until) Step();
  now_ = until;
}

absl::Status SimExecutor::Post(Task task) {
  if (alive_ == nullptr) return absl::FailedPreconditionError("the simulated process is dead");
  auto shared = std::make_shared<Task>(std::move(task));
  loop_->CallAt(loop_->Now() + delay_, [shared, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.lock() != nullptr) (*shared)();
  });
  return absl::OkStatus();
}

}  // namespace gradwire
