#include "worker/launch/job_policy.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/str_cat.h"

namespace gradwire::launch {

std::string ProcessEnd::ToString() const {
  if (signal == 0) return absl::StrCat("ended with status ", status);
  const char* const text = sigdescr_np(signal);
  return absl::StrCat("was killed by signal ", signal, " (", text == nullptr ? "unknown" : text,
                      ")");
}

JobPolicy::JobPolicy(const JobPolicyOptions& options)
    : options_(options),
      states_(static_cast<size_t>(options.server_count + options.worker_count), State::kWaiting),
      was_killed_(states_.size()) {}

std::string JobPolicy::name(int process) const {
  return is_server(process) ? absl::StrCat("ps", process)
                            : absl::StrCat("worker", process - options_.server_count);
}

JobPolicy::Orders JobPolicy::Begin() {
  Orders orders;
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i] = State::kRunning;
    orders.push_back({Action::kStart, static_cast<int>(i)});
  }
  return orders;
}

bool JobPolicy::finished() const {
  return std::all_of(states_.begin(), states_.end(), [](State s) { return s == State::kEnded; });
}

bool JobPolicy::AnyLeft(bool servers) const {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (is_server(static_cast<int>(i)) == servers && states_[i] != State::kEnded) return true;
  }
  return false;
}

void JobPolicy::Tell(bool servers, absl::Time now, Orders& orders) {
  for (size_t i = 0; i < states_.size(); ++i) {
    const int process = static_cast<int>(i);
    if (is_server(process) != servers || states_[i] != State::kRunning) continue;
    states_[i] = State::kTold;
    orders.push_back({Action::kTerminate, process});
  }
  kill_at_ = std::min(kill_at_, now + options_.grace * kKillShare);
}

JobPolicy::Orders JobPolicy::OnTime(absl::Time now) {
  Orders orders;
  if (now >= stop_workers_at_) {
    stop_workers_at_ = absl::InfiniteFuture();
    Tell(/*servers=*/false, now, orders);
  }
  if (now >= stop_servers_at_) {
    stop_servers_at_ = absl::InfiniteFuture();
    Tell(/*servers=*/true, now, orders);
  }
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteFuture();
    for (size_t i = 0; i < states_.size(); ++i) {
      // All: who was not told yet has nobody left to work for.
      if (states_[i] == State::kEnded || was_killed_[i]) continue;
      was_killed_[i] = true;
      killed_.push_back(static_cast<int>(i));
      orders.push_back({Action::kKill, static_cast<int>(i)});
    }
  }
  return orders;
}

absl::Time JobPolicy::next_time() const {
  return std::min({stop_workers_at_, stop_servers_at_, kill_at_});
}

void JobPolicy::OnServerEnd(int process, ProcessEnd end, State before, absl::Time now) {
  const bool early = before == State::kRunning && interrupt_ == 0 && AnyLeft(/*servers=*/false);
  if (early) {
    server_lost_ = true;
    if (!failure_) failure_ = Failure{process, end, true};
    StopWorkersAt(now + options_.server_loss);
    return;
  }
  // Told to end: a server that has no way to do so in order dies of the signal. One that we killed
  // is a warning, not a failed job: the workers have what they came for.
  const bool as_told =
      end.ok() || end.signal == SIGTERM || was_killed_[static_cast<size_t>(process)];
  if (!as_told && interrupt_ == 0 && !failure_) failure_ = Failure{process, end, false};
}

void JobPolicy::OnWorkerEnd(int process, ProcessEnd end, State before, absl::Time now,
                            Orders& orders) {
  const bool by_itself = before == State::kRunning && interrupt_ == 0;
  if (!end.ok() && by_itself && !server_lost_ && restart_count_ < options_.max_restarts) {
    ++restart_count_;
    states_[static_cast<size_t>(process)] = State::kRunning;
    orders.push_back({Action::kStart, process});
    return;
  }
  if (!end.ok() && interrupt_ == 0 && !failure_) failure_ = Failure{process, end, false};
  if (!AnyLeft(/*servers=*/false)) {
    stop_workers_at_ = absl::InfiniteFuture();
    stop_servers_at_ = now;
  }
}

JobPolicy::Orders JobPolicy::OnEnd(int process, ProcessEnd end, absl::Time now) {
  Orders orders;
  State& state = states_[static_cast<size_t>(process)];
  const State before = state;
  state = State::kEnded;
  if (is_server(process)) {
    OnServerEnd(process, end, before, now);
  } else {
    OnWorkerEnd(process, end, before, now, orders);
  }
  const Orders due = OnTime(now);
  orders.insert(orders.end(), due.begin(), due.end());
  return orders;
}

JobPolicy::Orders JobPolicy::OnStartFailed(int process, absl::Time now) {
  states_[static_cast<size_t>(process)] = State::kEnded;
  // What a shell says where a program can't be executed.
  if (!failure_) failure_ = Failure{process, {.status = 126}, false};
  server_lost_ = true;  // nobody is started again
  stop_workers_at_ = now;
  stop_servers_at_ = AnyLeft(/*servers=*/false) ? now + options_.grace * kServerShare : now;
  return OnTime(now);
}

JobPolicy::Orders JobPolicy::OnInterrupt(int signal, absl::Time now) {
  if (!AnyLeft(/*servers=*/false)) return {};  // the job is done, and its servers are told
  if (interrupt_ == 0) interrupt_ = signal;
  stop_workers_at_ = now;
  stop_servers_at_ = std::min(stop_servers_at_, now + options_.grace * kServerShare);
  return OnTime(now);
}

int JobPolicy::exit_status() const {
  if (failure_) return failure_->end.ok() ? 1 : failure_->end.exit_status();
  if (interrupt_ != 0) return 128 + interrupt_;
  return 0;
}

}  // namespace gradwire::launch
