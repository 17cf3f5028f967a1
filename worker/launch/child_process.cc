#include "worker/launch/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "worker/launch/progress_writer.h"

namespace gradwire::launch {
namespace {

// Where a worker finds its pipe for progress lines.
constexpr int kProgressFd = 3;

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> ChildEnvironment(bool reports) {
  const std::string prefix = absl::StrCat(kProgressFdVariable, "=");
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, prefix)) all.emplace_back(*entry);
  }
  if (reports) all.push_back(absl::StrCat(prefix, kProgressFd));
  return all;
}

// All that the child needs, made before the fork: other threads may hold any lock at that moment.
struct Prepared {
  pid_t parent;
  char* const* arguments;
  char* const* environment;
  int input, out, err, progress;  // progress -1: none
  int failure;                    // takes errno where the program can't be executed
};

// Puts a descriptor in its place, open beyond exec.
bool Place(int fd, int place) {
  if (fd == place) return fcntl(fd, F_SETFD, 0) == 0;
  return dup2(fd, place) >= 0;
}

// In the child: async-signal-safe calls alone.
[[noreturn]] void Become(const Prepared& p) {
  // First, so that no death of the launcher is missed; it may have died before.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != p.parent) _exit(127);
  setpgid(0, 0);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // All sources are above the places (Above), so that none overwrites another.
  if (Place(p.input, STDIN_FILENO) && Place(p.out, STDOUT_FILENO) && Place(p.err, STDERR_FILENO) &&
      (p.progress < 0 || Place(p.progress, kProgressFd))) {
    execve(p.arguments[0], p.arguments, p.environment);
  }
  const int error = errno;
  (void)!write(p.failure, &error, sizeof(error));
  _exit(127);
}

// Moves a descriptor above those that the child's take.
absl::Status Above(UniqueFd& fd) {
  if (fd.get() > kProgressFd) return absl::OkStatus();
  const int moved = fcntl(fd.get(), F_DUPFD_CLOEXEC, kProgressFd + 1);
  if (moved < 0) return absl::ErrnoToStatus(errno, "moving a descriptor");
  fd.Reset(moved);
  return absl::OkStatus();
}

void MakeNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& command, bool reports) {
  std::vector<std::string> words = command;
  std::vector<std::string> environment = ChildEnvironment(reports);
  const std::vector<char*> word_pointers = Pointers(words);
  const std::vector<char*> environment_pointers = Pointers(environment);
  UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input) return absl::ErrnoToStatus(errno, "opening /dev/null");
  GW_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  GW_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  GW_ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  Pipe progress;
  if (reports) {
    GW_ASSIGN_OR_RETURN(progress, MakePipe());
    GW_RETURN_IF_ERROR(Above(progress.write));
  }
  for (UniqueFd* const fd : {&input, &out.write, &err.write, &failure.write}) {
    GW_RETURN_IF_ERROR(Above(*fd));
  }

  Prepared prepared = {
      getpid(),        word_pointers.data(), environment_pointers.data(), input.get(),
      out.write.get(), err.write.get(),      progress.write.get(),        failure.write.get()};
  const pid_t pid = fork();
  if (pid == 0) Become(prepared);
  if (pid < 0) return absl::ErrnoToStatus(errno, "starting a process");
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->pid_ = pid;
  failure.write.Reset();
  int error = 0;
  ssize_t count = 0;
  while ((count = read(failure.read.get(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (count == static_cast<ssize_t>(sizeof(error))) {
    return absl::ErrnoToStatus(error, absl::StrCat("executing ", EscapedString(command[0])));
  }
  child->end_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!child->end_) return absl::ErrnoToStatus(errno, "watching a process");
  child->streams_[0] = std::move(out.read);
  child->streams_[1] = std::move(err.read);
  child->streams_[2] = std::move(progress.read);
  for (const UniqueFd& stream : child->streams_) {
    if (stream) MakeNonBlocking(stream.get());
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (reaped_) return;
  Signal(SIGKILL);
  kill(pid_, SIGKILL);  // it may not have come to its group
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

ChildProcess::ReadResult ChildProcess::Read(Stream stream, std::string& into) {
  UniqueFd& fd = streams_[static_cast<size_t>(stream)];
  if (!fd) return ReadResult::kEnd;
  const size_t before = into.size();
  into.resize(before + kReadBytes);
  ssize_t count = 0;
  while ((count = read(fd.get(), into.data() + before, kReadBytes)) < 0 && errno == EINTR) {
  }
  into.resize(before + static_cast<size_t>(std::max<ssize_t>(count, 0)));
  if (count > 0) return ReadResult::kBytes;
  if (count < 0 && errno == EAGAIN) return ReadResult::kNothing;
  fd.Reset();
  return ReadResult::kEnd;
}

void ChildProcess::Signal(int signal) {
  if (!reaped_) kill(-pid_, signal);
}

std::optional<ProcessEnd> ChildProcess::Reap() {
  if (reaped_) return std::nullopt;
  siginfo_t info = {};
  // Not taken away yet: its number, and its group's, stay its own until the others are gone.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  Signal(SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (info.si_code == CLD_EXITED) return ProcessEnd{.status = info.si_status};
  return ProcessEnd{.signal = info.si_status};
}

}  // namespace gradwire::launch
