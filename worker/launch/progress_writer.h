// Writes a worker's progress lines to the launcher that started it, if one did.
//
//   auto writer = launch::ProgressWriter::FromEnvironment(ProcessEnvironment());  // a StatusOr
//   writer->Write({.rank = rank, .rows = rows});  // nobody listens: does nothing
//
// How often:     after the first step (launchers measure the time to it), then up to ten times a
//                second, which is as often as it is shown; a last line with `done`, quality or
//                error.
//
// The launcher names a pipe by GRADWIRE_PROGRESS_FD. Never an error to the training, which goes on
// whether anyone reads or not.
//
// Ownership:     owns the descriptor and closes it; programs that this one starts don't get it.
// Thread-safety: none: one thread, or under the caller's lock.
// Blocking:      never, but for a line that is the last (`done`): up to kLastLinePatience, while
//                the pipe is full. Any other line is dropped then; the next makes it good.
// Signals:       a reader that went away raises none (SIGPIPE); later lines go nowhere.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/options.h"
#include "rpc/base/unique_fd.h"
#include "worker/launch/progress.h"

namespace gradwire::launch {

inline constexpr char kProgressFdVariable[] = "GRADWIRE_PROGRESS_FD";
inline constexpr absl::Duration kLastLinePatience = absl::Seconds(1);

class ProgressWriter {
 public:
  // Writes nowhere.
  ProgressWriter() = default;
  // Writes to the pipe that the environment names; nowhere if it names none. INVALID_ARGUMENT: what
  // it names is no open pipe for writing.
  static absl::StatusOr<ProgressWriter> FromEnvironment(const Environment& environment);
  // Writes to a pipe, which becomes non-blocking.
  explicit ProgressWriter(UniqueFd pipe);

  // Whether somebody may read. False from the first line on that found no reader.
  bool active() const { return static_cast<bool>(pipe_); }

  void Write(const Progress& progress);

 private:
  UniqueFd pipe_;
};

}  // namespace gradwire::launch
