// A standard stream of the launcher, written without ever waiting for who reads it: a launcher that
// waits can't pass a signal on.
//
// Backpressure:  what doesn't go out at once is kept; from kFullBytes on full() asks the caller to
//                take no more from the processes until it went out.
// Errors:        a reader that went away (a closed pipe) is no error: what follows is dropped. A
//                program of which nobody reads the output still trains.
// Ownership:     doesn't close `fd`, and doesn't change it: others share it.
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "rpc/base/unique_fd.h"

namespace gradwire::launch {

class OutputStream {
 public:
  static constexpr size_t kFullBytes = size_t{1} << 20;

  // Opens /dev/null in the place of a standard stream that is closed: else the next descriptor that
  // is made would be taken for it.
  static void FillStandardStreams();

  explicit OutputStream(int fd);

  void Write(absl::string_view text);
  // Writes of what is kept what can be written without waiting.
  void Flush();
  bool has_pending() const { return !pending_.empty(); }
  bool full() const { return pending_.size() >= kFullBytes; }
  // Nobody reads: what is worth something only now is better left out.
  bool stuck() const { return pending_.size() >= 2 * kFullBytes; }
  // Can be written (poll) when Flush has something to do.
  int fd() const { return own_ ? own_.get() : fd_; }

  // Whether both are the same terminal, pipe or file: one stream must then serve for both, or their
  // lines mix.
  static bool Same(int fd, int other);
  bool is_terminal() const { return is_terminal_; }
  // Columns; 80 where the terminal doesn't say.
  size_t width() const;

 private:
  const int fd_;
  const bool is_terminal_;
  bool is_pipe_ = false;
  bool is_file_ = false;
  bool broken_ = false;
  UniqueFd own_;  // the same terminal or pipe, opened once more: non-blocking for us alone
  std::string pending_;
};

}  // namespace gradwire::launch
