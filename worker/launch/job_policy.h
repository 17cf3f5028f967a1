// What a launcher does about the processes of a job when one ends, a signal comes or time passes:
// the decisions of `gradwire run`, without processes and without a clock.
//
//   Ended               a job ends when all its processes have. The servers are told to end
//                       (SIGTERM) when all workers have ended.
//   A worker fails      it is started again while restarts are left; then the job has failed, and
//                       the other workers go on to their end.
//   A server ends early the job has failed. The workers get `server_loss` to end by themselves,
//                       with an error of theirs; then they are told to.
//   An interrupt        the workers are told to end at once, the servers when those have ended, or
//                       after kServerShare of the grace.
//   The grace           who was told to end and is still there after kKillShare of it is killed, so
//                       that all is over within the grace.
//
// Processes are numbered: the servers from 0, then the workers.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gradwire::launch {

// How a process ended.
struct ProcessEnd {
  int status = 0;  // where no signal ended it
  int signal = 0;  // 0: none
  bool ok() const { return status == 0 && signal == 0; }
  // What a shell says: the status, or 128 + signal.
  int exit_status() const { return signal != 0 ? 128 + signal : status; }
  // "ended with status 3", "was killed by signal 9 (Killed)".
  std::string ToString() const;
};

struct JobPolicyOptions {
  int server_count = 1;
  int worker_count = 1;
  int max_restarts = 0;                            // of all workers together
  absl::Duration grace = absl::Seconds(5);         // from the word to end until nobody is left
  absl::Duration server_loss = absl::Seconds(10);  // how long workers may run on without a server
};

class JobPolicy {
 public:
  static constexpr double kServerShare = 0.3;
  static constexpr double kKillShare = 0.7;

  enum class Action { kStart, kTerminate, kKill };
  struct Order {
    Action action;
    int process;
    friend bool operator==(const Order&, const Order&) = default;
  };
  using Orders = std::vector<Order>;

  struct Failure {
    int process;
    ProcessEnd end;
    bool early;  // a server that ended, however well, before the workers
  };

  explicit JobPolicy(const JobPolicyOptions& options);

  // Starts all.
  Orders Begin();
  Orders OnEnd(int process, ProcessEnd end, absl::Time now);
  // A process could not be started (again): the job can't go on.
  Orders OnStartFailed(int process, absl::Time now);
  Orders OnInterrupt(int signal, absl::Time now);
  Orders OnTime(absl::Time now);
  // When OnTime has something to do; InfiniteFuture: never.
  absl::Time next_time() const;

  bool finished() const;
  // The interrupt that ended the job before its workers had; 0: none.
  int interrupt() const { return interrupt_; }
  // The first process that failed for good.
  const std::optional<Failure>& failure() const { return failure_; }
  // Those that did not end when told to.
  const std::vector<int>& killed() const { return killed_; }
  int restart_count() const { return restart_count_; }
  // Of the job: 0 when every worker ended with 0 and nothing else failed.
  int exit_status() const;

  bool is_server(int process) const { return process < options_.server_count; }
  // "ps0", "worker1".
  std::string name(int process) const;

 private:
  enum class State { kWaiting, kRunning, kTold, kEnded };

  bool AnyLeft(bool servers) const;
  void Tell(bool servers, absl::Time now, Orders& orders);
  void StopWorkersAt(absl::Time at) { stop_workers_at_ = std::min(stop_workers_at_, at); }
  void OnServerEnd(int process, ProcessEnd end, State before, absl::Time now);
  void OnWorkerEnd(int process, ProcessEnd end, State before, absl::Time now, Orders& orders);

  const JobPolicyOptions options_;
  std::vector<State> states_;
  std::vector<bool> was_killed_;
  std::vector<int> killed_;
  absl::Time stop_workers_at_ = absl::InfiniteFuture();
  absl::Time stop_servers_at_ = absl::InfiniteFuture();
  absl::Time kill_at_ = absl::InfiniteFuture();
  std::optional<Failure> failure_;
  bool server_lost_ = false;
  int interrupt_ = 0;
  int restart_count_ = 0;
};

}  // namespace gradwire::launch
