#include "worker/launch/progress_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/option_values.h"

namespace gradwire::launch {
namespace {

// Whether a descriptor above those of the standard streams is a pipe that can be written to.
bool IsPipe(int fd) {
  struct stat info = {};
  if (fd <= STDERR_FILENO || fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode)) return false;
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

// write() that fails with EPIPE without a signal, whatever the program does with SIGPIPE: a write
// sends it to its own thread, where it is blocked and taken back.
ssize_t WriteWithoutSignal(int fd, const std::string& bytes) {
  sigset_t broken, old, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &broken, &old);
  const ssize_t count = write(fd, bytes.data(), bytes.size());
  const int error = errno;
  if (count < 0 && error == EPIPE && !was_pending) {
    const timespec at_once = {};
    while (sigtimedwait(&broken, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  errno = error;
  return count;
}

}  // namespace

absl::StatusOr<ProgressWriter> ProgressWriter::FromEnvironment(const Environment& environment) {
  const std::optional<std::string> text = environment(kProgressFdVariable);
  if (!text) return ProgressWriter();
  const std::optional<int64_t> fd = ParseInteger(*text);
  if (!fd || *fd < 0 || *fd > INT32_MAX || !IsPipe(static_cast<int>(*fd))) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment ", kProgressFdVariable, "=", EscapedString(*text),
                     " names no open pipe to write progress to; gradwire run sets it for the "
                     "processes that it starts: unset it elsewhere"));
  }
  return ProgressWriter(UniqueFd(static_cast<int>(*fd)));
}

ProgressWriter::ProgressWriter(UniqueFd pipe) : pipe_(std::move(pipe)) {
  fcntl(pipe_.get(), F_SETFD, FD_CLOEXEC);
  fcntl(pipe_.get(), F_SETFL, fcntl(pipe_.get(), F_GETFL) | O_NONBLOCK);
}

void ProgressWriter::Write(const Progress& progress) {
  if (!active()) return;
  const std::string line = EncodeProgress(progress) + "\n";
  bool patient = progress.done;
  while (true) {
    // A pipe takes a line of this size whole or not at all.
    if (WriteWithoutSignal(pipe_.get(), line) >= 0) return;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      pipe_.Reset();
      return;
    }
    if (!patient) return;
    patient = false;
    pollfd room = {pipe_.get(), POLLOUT, 0};
    poll(&room, 1, static_cast<int>(absl::ToInt64Milliseconds(kLastLinePatience)));
  }
}

}  // namespace gradwire::launch
