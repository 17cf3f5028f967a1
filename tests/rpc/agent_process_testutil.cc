// The test's side of an agent in a process of its own.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/clock.h"
#include "rpc/base/status.h"
#include "tests/rpc/agent_process.h"

namespace gradwire::rpc::testing {
namespace {

// A descriptor's wait with an end. False when the time is over.
bool WaitFor(int fd, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - Clock::Real().Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) > 0) return true;
  }
}

// LineOf, read back.
absl::Status StatusOf(absl::string_view line) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
  int code = 0;
  std::string message;
  if (!absl::SimpleAtoi(parts.first, &code) || !absl::CUnescape(parts.second, &message)) {
    return absl::InternalError(absl::StrCat("no status: ", line));
  }
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace

std::unique_ptr<AgentProcess> AgentProcess::Start(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {GW_AGENT_PROCESS};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  std::unique_ptr<AgentProcess> process(new AgentProcess);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) {
    process->status_ = absl::InternalError("no pipe");
    return process;
  }
  const UniqueFd its_in(in[0]);
  process->to_ = UniqueFd(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0) {
    process->status_ = absl::InternalError("no pipe");
    return process;
  }
  const UniqueFd its_out(out[1]);
  process->from_ = UniqueFd(out[0]);
  process->log_ = UniqueFd(memfd_create("agent_process", MFD_CLOEXEC));
  const pid_t parent = getpid();
  process->pid_ = fork();
  if (process->pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    dup2(its_in.get(), STDIN_FILENO);
    dup2(its_out.get(), STDOUT_FILENO);
    dup2(process->log_.get(), STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  if (process->pid_ < 0) {
    process->status_ = absl::InternalError("no process");
    return process;
  }
  process->pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0)));
  const absl::StatusOr<std::string> first = process->ReadLine();
  if (!first.ok()) {
    process->status_ = first.status();
    return process;
  }
  const std::vector<std::string> parts = absl::StrSplit(*first, absl::MaxSplits(' ', 2));
  if (parts.size() == 3 && parts[0] == "ready" &&
      absl::SimpleAtoi(parts[1], &process->incarnation_)) {
    process->address_ = parts[2];
  } else {
    process->status_ = StatusOf(*first);
  }
  return process;
}

AgentProcess::~AgentProcess() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
}

absl::StatusOr<std::string> AgentProcess::ReadLine(absl::Duration timeout) {
  const absl::Time deadline = Clock::Real().Now() + timeout;
  while (true) {
    const size_t end = heard_.find('\n');
    if (end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    if (!WaitFor(from_.get(), deadline)) {
      return absl::DeadlineExceededError(absl::StrCat("the process says nothing; log: ", Log()));
    }
    char bytes[4096];
    const ssize_t count = read(from_.get(), bytes, sizeof(bytes));
    if (count <= 0) {
      return absl::UnavailableError(absl::StrCat("the process has ended; log: ", Log()));
    }
    heard_.append(bytes, static_cast<size_t>(count));
  }
}

absl::StatusOr<std::string> AgentProcess::Ask(const std::string& line) {
  const std::string words = line + "\n";
  if (write(to_.get(), words.data(), words.size()) != static_cast<ssize_t>(words.size())) {
    return absl::UnavailableError("the process doesn't listen");
  }
  GW_ASSIGN_OR_RETURN(const std::string answer, ReadLine());
  GW_RETURN_IF_ERROR(StatusOf(answer));
  std::string text;
  if (!absl::CUnescape(answer.substr(2), &text)) return absl::InternalError("no answer: " + answer);
  return text;
}

void AgentProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

void AgentProcess::Pause() {
  Signal(SIGSTOP);
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
  if (!WIFSTOPPED(status)) pid_ = -1;  // it has ended instead
}

absl::StatusOr<int> AgentProcess::WaitForEnd(absl::Duration timeout) {
  if (pid_ <= 0) return absl::FailedPreconditionError("it has been waited for");
  if (!WaitFor(pid_fd_.get(), Clock::Real().Now() + timeout)) {
    return absl::DeadlineExceededError(absl::StrCat("the process still runs; log: ", Log()));
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

int64_t AgentProcess::ResidentBytes() const {
  int64_t all = 0, resident = 0;
  std::ifstream(absl::StrCat("/proc/", pid_, "/statm")) >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int AgentProcess::SocketCount() const {
  const std::string folder = absl::StrCat("/proc/", pid_, "/fd");
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = readdir(entries)) {
    char target[64] = {};
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    if (readlink(path.c_str(), target, sizeof(target) - 1) > 0) {
      count += absl::StartsWith(target, "socket:") ? 1 : 0;
    }
  }
  closedir(entries);
  return count;
}

std::string AgentProcess::Log() const {
  std::string text(1 << 20, '\0');
  const ssize_t count = pread(log_.get(), text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<size_t>(count));
  return text;
}

}  // namespace gradwire::rpc::testing
