// Runs the processes of a job to their end: obeys JobPolicy, prints what they say, and keeps count
// of how far they are. The loop of `gradwire run`.
//
// Left behind:   nothing: all processes have ended when Run returns, or are killed with this
//                object.
// Threads:       Run works on its caller's thread alone, which must be the one that lives as long
//                as the program (ChildProcess).
// Blocking:      never on a reader of the output, nor on a process.
// Thread-safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "rpc/base/future.h"
#include "worker/launch/child_process.h"
#include "worker/launch/console.h"
#include "worker/launch/guard.h"
#include "worker/launch/job_policy.h"
#include "worker/launch/job_progress.h"
#include "worker/launch/line_splitter.h"
#include "worker/launch/log_lines.h"

namespace gradwire::launch {

struct SupervisorOptions {
  JobPolicyOptions job;
  std::vector<std::vector<std::string>> commands;  // by process number
  absl::Duration progress_interval;
  std::string log_folder;  // "": none
};

class Supervisor {
 public:
  // What the pointers show outlives this.
  Supervisor(SupervisorOptions options, OutputStream* out, OutputStream* err, Console* console,
             Guard* guard, Clock* clock, FileSystem* fs);
  ~Supervisor();

  // Opens the log files. Before Run.
  absl::Status OpenLogs();
  // Until all processes have ended. `interrupt`: the number of a signal that ends the job.
  absl::Status Run(Future<int> interrupt);
  // Waits until what is kept of the output is written: until `interrupt`, or not much longer when
  // it has come.
  void Finish();

  const JobPolicy& policy() const { return policy_; }
  const JobProgress& progress() const { return progress_; }
  // Why the job failed: process, end and its last words. "": it has not.
  std::string error() const;

 private:
  struct Process;
  struct Waiting;

  void Obey(const JobPolicy::Orders& orders);
  void Start(int process);
  void Signal(int process, int number);
  void OnInterrupt();
  void Read(int process, ChildProcess::Stream stream);
  void TakeLines(int process, ChildProcess::Stream stream, const std::vector<std::string>& lines);
  void TakeProgress(int process, const std::string& line);
  void OnEnd(int process);
  void Show(absl::Time now);
  absl::Time NextShow() const;
  void Wait();
  void Say(const std::string& text);
  void ShowLog();

  const SupervisorOptions options_;
  OutputStream* const out_;
  OutputStream* const err_;
  Console* const console_;
  Guard* const guard_;
  Clock* const clock_;
  FileSystem* const fs_;
  LogLines log_;  // of this process
  JobPolicy policy_;
  JobProgress progress_;
  std::vector<Process> processes_;
  Future<int> interrupt_;
  bool interrupted_ = false;
  std::shared_ptr<UniqueFd> wake_;  // an event: the interrupt has come
  std::string start_error_;
  bool changed_ = false;  // since it was shown
  absl::Time shown_ = absl::InfinitePast();
};

}  // namespace gradwire::launch
