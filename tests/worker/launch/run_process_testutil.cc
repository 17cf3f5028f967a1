// The test's side of `gradwire run` in a process of its own.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "tests/support/wait.h"
#include "tests/worker/launch/run_process.h"

namespace gradwire::launch::testing {
namespace {

using ::gradwire::testing::WaitUntil;

// Whether the process is a sanitizer's helper, which reads names for a report that is suppressed:
// no part of the job.
bool IsSymbolizer(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return absl::StartsWith(name, "llvm-symbolizer");  // cut after 15 characters
}

// The environment of a process; "" if it has ended.
std::string EnvironmentOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Remove(const std::string& path) {
  FileSystem& fs = FileSystem::Real();
  if (const auto names = fs.List(path); names.ok()) {
    for (const std::string& name : *names) Remove(JoinPath(path, name));
  }
  (void)fs.Remove(path);
}

}  // namespace

TestFolder::TestFolder() : path_("/tmp/gw-launch-test-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) abort();
}

TestFolder::~TestFolder() { Remove(path_); }

std::vector<std::string> TestFolder::Names() const {
  auto names = FileSystem::Real().List(path_);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

const char* RunProcess::Gradwire() { return GW_GRADWIRE; }
const char* RunProcess::FakeRole() { return GW_FAKE_ROLE; }

std::unique_ptr<RunProcess> RunProcess::Job(std::vector<std::string> flags,
                                            const std::vector<std::string>& arguments,
                                            Options options) {
  flags.insert(flags.begin(), "run");
  flags.push_back("--");
  flags.push_back(GW_FAKE_ROLE);
  flags.insert(flags.end(), arguments.begin(), arguments.end());
  return Start(flags, std::move(options));
}

std::unique_ptr<RunProcess> RunProcess::Start(const std::vector<std::string>& arguments,
                                              Options options) {
  static int count = 0;
  std::unique_ptr<RunProcess> process(new RunProcess);
  process->mark_ = absl::StrCat("GW_TEST_MARK=", getpid(), "-", ++count);
  std::vector<std::string> words;
  if (!options.plain) words.push_back(GW_GRADWIRE);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = {process->mark_, "TMPDIR=" + process->folder_.path()};
  for (const std::string& one : options.environment) environment.push_back(one);
  for (char** one = environ; *one != nullptr; ++one) {
    if (!absl::StartsWith(*one, "TMPDIR=") && !absl::StartsWith(*one, "TERM=") &&
        !absl::StartsWith(*one, "NO_COLOR=")) {
      environment.emplace_back(*one);
    }
  }
  std::vector<char*> word_pointers, environment_pointers;
  for (std::string& word : words) word_pointers.push_back(word.data());
  for (std::string& one : environment) environment_pointers.push_back(one.data());
  word_pointers.push_back(nullptr);
  environment_pointers.push_back(nullptr);

  int out[2] = {-1, -1}, err[2] = {-1, -1};
  UniqueFd its_out, its_err;
  if (options.terminal) {
    winsize size = {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    if (openpty(&out[0], &out[1], nullptr, nullptr, &size) != 0) abort();
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    fcntl(out[1], F_SETFD, FD_CLOEXEC);
    its_out.Reset(out[1]);
    its_err.Reset(dup(out[1]));
  } else {
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) abort();
    its_out.Reset(out[1]);
    its_err.Reset(err[1]);
    process->err_.Reset(err[0]);
  }
  process->out_.Reset(out[0]);
  const pid_t parent = getpid();
  process->pid_ = fork();
  if (process->pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    dup2(its_out.get(), STDOUT_FILENO);
    dup2(its_err.get(), STDERR_FILENO);
    // What the test's process was given is not the launcher's.
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
    execve(word_pointers[0], word_pointers.data(), environment_pointers.data());
    _exit(127);
  }
  process->end_.Reset(static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0)));
  if (options.stdout_to_nobody) process->out_.Reset();
  if (options.stdout_unread) process->unread_ = std::move(process->out_);
  return process;
}

RunProcess::~RunProcess() {
  if (pid_ > 0) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const pid_t one : Living()) kill(one, SIGKILL);
}

void RunProcess::Signal(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

bool RunProcess::ReadSome(absl::Time deadline) {
  const absl::Duration left = deadline - Clock::Real().Now();
  if (left <= absl::ZeroDuration() || (!out_ && !err_)) return false;
  pollfd waiting[2] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
  poll(waiting, 2, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  for (const auto& [index, text] : {std::pair{0, &out_text_}, std::pair{1, &err_text_}}) {
    if (waiting[index].revents == 0) continue;
    UniqueFd& fd = index == 0 ? out_ : err_;
    char bytes[1 << 16];
    const ssize_t count = read(fd.get(), bytes, sizeof(bytes));
    if (count > 0) {
      text->append(bytes, static_cast<size_t>(count));
    } else {
      fd.Reset();  // its end; a terminal's is an error
    }
  }
  return true;
}

bool RunProcess::WaitForOutput(absl::string_view text, absl::Duration timeout) {
  const absl::Time deadline = Clock::Real().Now() + timeout;
  while (!absl::StrContains(out_text_, text)) {
    if (!ReadSome(deadline)) return false;
  }
  return true;
}

bool RunProcess::WaitForErrors(absl::string_view text, absl::Duration timeout) {
  const absl::Time deadline = Clock::Real().Now() + timeout;
  while (!absl::StrContains(err_text_, text)) {
    if (!ReadSome(deadline)) return false;
  }
  return true;
}

int RunProcess::WaitForEnd(absl::Duration timeout) {
  const absl::Time deadline = Clock::Real().Now() + timeout;
  while (ReadSome(deadline)) {
  }
  const absl::Duration left = deadline - Clock::Real().Now();
  pollfd ended = {end_.get(), POLLIN, 0};
  if (poll(&ended, 1, std::max(0, static_cast<int>(absl::ToInt64Milliseconds(left)))) <= 0) {
    return -1;
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t RunProcess::PidOf(const std::string& name) {
  const std::string words = absl::StrCat("[", name, "] pid ");
  pid_t pid = -1;
  const absl::Time deadline = Clock::Real().Now() + kPatience;
  while (true) {
    const size_t at = out_text_.rfind(words);
    const size_t end = at == std::string::npos ? at : out_text_.find('\n', at);
    if (end != std::string::npos) {
      const size_t begin = at + words.size();
      (void)absl::SimpleAtoi(out_text_.substr(begin, end - begin), &pid);
      return pid;
    }
    if (!ReadSome(deadline)) return -1;
  }
}

std::set<pid_t> RunProcess::Living() const {
  std::set<pid_t> living;
  const auto names = FileSystem::Real().List("/proc");
  if (!names.ok()) return living;
  for (const std::string& name : *names) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(name, &pid) || pid == getpid()) continue;
    if (absl::StrContains(EnvironmentOf(name), mark_ + '\0') && !IsSymbolizer(name)) {
      living.insert(pid);
    }
  }
  return living;
}

std::string RunProcess::Left(absl::Duration timeout) const {
  WaitUntil([&] { return Living().empty() && Files().empty(); }, timeout);
  std::string left = absl::StrJoin(Files(), " ");
  for (const pid_t pid : Living()) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"));
    std::string command;
    std::getline(file, command, '\0');
    absl::StrAppend(&left, " ", pid, " ", command);
  }
  return left;
}

}  // namespace gradwire::launch::testing
