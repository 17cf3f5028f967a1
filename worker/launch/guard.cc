#include "worker/launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"

namespace gradwire::launch {
namespace {

struct Left {
  std::set<pid_t> groups;
  std::set<std::string> folders;

  // "+12", "-12", "/folder".
  void Take(absl::string_view line) {
    pid_t group = 0;
    if (line[0] == '/') {
      folders.emplace(line);
    } else if (absl::SimpleAtoi(line.substr(1), &group) && group > 1) {
      if (line[0] == '+') groups.insert(group);
      if (line[0] == '-') groups.erase(group);
    }
  }

  void CleanUp() const {
    for (const pid_t group : groups) kill(-group, SIGKILL);
    FileSystem& fs = FileSystem::Real();
    for (const std::string& folder : folders) {
      const auto names = fs.List(folder);
      if (!names.ok()) continue;  // it is gone, as it should be
      for (const std::string& name : *names) (void)fs.Remove(JoinPath(folder, name));
      (void)fs.Remove(folder);
    }
  }
};

[[noreturn]] void Watch(int pipe) {
  // Away from the terminal and from what ends the launcher's group.
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  prctl(PR_SET_NAME, "gw-guard");
  // Who waits for the end of the launcher's output does not wait for this.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) dup2(nothing, fd);
  Left left;
  std::string heard;
  while (true) {
    char bytes[4096];
    const ssize_t count = read(pipe, bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    heard.append(bytes, static_cast<size_t>(count));
    for (size_t end; (end = heard.find('\n')) != std::string::npos; heard.erase(0, end + 1)) {
      if (end > 0) left.Take(absl::string_view(heard).substr(0, end));
    }
  }
  left.CleanUp();
  _exit(0);
}

}  // namespace

absl::StatusOr<Guard> Guard::Start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "making a pipe");
  UniqueFd read(ends[0]), write(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "starting the guard");
  if (pid == 0) {
    write.Reset();
    Watch(read.get());
  }
  return Guard(pid, std::move(write));
}

Guard::Guard(Guard&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)) {}

Guard::~Guard() {
  if (pid_ <= 0) return;
  pipe_.Reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::Tell(const std::string& line) {
  // Short: whole or not at all. Without a reader the guard was killed; the rest holds without it.
  const std::string words = line + "\n";
  while (::write(pipe_.get(), words.data(), words.size()) < 0 && errno == EINTR) {
  }
}

void Guard::AddGroup(pid_t group) { Tell(absl::StrCat("+", group)); }
void Guard::RemoveGroup(pid_t group) { Tell(absl::StrCat("-", group)); }
void Guard::AddFolder(const std::string& path) { Tell(path); }

}  // namespace gradwire::launch
