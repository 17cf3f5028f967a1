#include "worker/launch/output_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gradwire::launch {
namespace {

bool CanWrite(int fd) {
  pollfd waiting = {fd, POLLOUT, 0};
  return poll(&waiting, 1, 0) > 0;
}

}  // namespace

void OutputStream::FillStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest that is free is this one.
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDWR);
  }
}

OutputStream::OutputStream(int fd) : fd_(fd), is_terminal_(isatty(fd) == 1) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) {
    broken_ = true;
    return;
  }
  is_file_ = S_ISREG(info.st_mode);
  is_pipe_ = S_ISFIFO(info.st_mode);
  if (is_pipe_ || is_terminal_) {
    own_.Reset(open(absl::StrCat("/proc/self/fd/", fd).c_str(),
                    O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  }
}

bool OutputStream::Same(int fd, int other) {
  struct stat a = {}, b = {};
  return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

size_t OutputStream::width() const {
  winsize size = {};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void OutputStream::Write(absl::string_view text) {
  if (broken_) return;
  absl::StrAppend(&pending_, text);
  Flush();
}

void OutputStream::Flush() {
  size_t done = 0;
  while (done < pending_.size() && !broken_) {
    // Without a descriptor of our own: a pipe that can be written takes this much at once.
    size_t count = pending_.size() - done;
    if (!own_ && !is_file_) {
      if (!CanWrite(fd())) break;
      count = std::min<size_t>(count, PIPE_BUF);
    }
    const ssize_t written = write(fd(), pending_.data() + done, count);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  pending_.erase(0, done);
  if (broken_) pending_.clear();
}

}  // namespace gradwire::launch
