// A process that a launcher started: its three streams, its end, and signals to it.
//
// Left behind:   nothing. The process is killed when this object goes, and by the system when the
//                thread that called Start ends for whatever reason (PR_SET_PDEATHSIG): call Start
//                on a thread that lives as long as the launcher. It leads a process group of its
//                own, so that a terminal's Ctrl-C reaches the launcher alone, and signals reach
//                what it started too.
// Inherits:      the environment, with GRADWIRE_PROGRESS_FD where it reports; /dev/null as its
//                input; no signal that is blocked or ignored.
// Thread-safety: none.
// Blocking:      Start until the program was executed, or could not be. Nothing else.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/base/unique_fd.h"
#include "worker/launch/job_policy.h"

namespace gradwire::launch {

class ChildProcess {
 public:
  enum class Stream { kOut, kErr, kProgress };
  enum class ReadResult { kBytes, kNothing, kEnd };

  // `command`: the program's path, then its arguments. `reports`: it gets a pipe for progress
  // lines. NOT_FOUND, PERMISSION_DENIED, … as the system says why it can't be executed.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& command, bool reports);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Can be read (poll) when the process has ended.
  int end_fd() const { return end_.get(); }
  // -1: it has ended, or there is none.
  int fd(Stream stream) const { return streams_[static_cast<size_t>(stream)].get(); }
  // Appends what is there, up to kReadBytes. kEnd: nothing will come any more.
  ReadResult Read(Stream stream, std::string& into);

  // To the process and all that it started; nothing once it has been reaped.
  void Signal(int signal);
  // How it ended, if it has. What it started and left in its group is killed then.
  std::optional<ProcessEnd> Reap();

  static constexpr size_t kReadBytes = 64u << 10;

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  bool reaped_ = false;
  UniqueFd end_;
  UniqueFd streams_[3];
};

}  // namespace gradwire::launch
