#include "worker/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::launch {
namespace {

using Stream = ChildProcess::Stream;
using ReadResult = ChildProcess::ReadResult;

// A terminal shows more only to machines.
constexpr absl::Duration kRedrawInterval = absl::Milliseconds(100);
// What a process that has ended may have left in its pipe, whose size it may have raised.
constexpr int kMaxLastReads = 64;
constexpr size_t kMaxShownErrorBytes = 500;
constexpr absl::Duration kLastWordsPatience = absl::Seconds(1);

int Milliseconds(absl::Duration duration) {
  duration = std::clamp(duration, absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(1))));
}

}  // namespace

struct Supervisor::Process {
  std::unique_ptr<ChildProcess> child;  // null: not running
  LineSplitter lines[3];
  std::string last_error_line;
  std::unique_ptr<File> log;
  bool progress_refused = false;
};

// What one poll waits for.
struct Supervisor::Waiting {
  struct Source {
    int process;
    int stream;  // -1: the process's end
  };
  std::vector<pollfd> fds;
  std::vector<Source> sources;  // of the fds behind the first two: the interrupt's and the log's
  void Add(int fd, short events, Source source) {
    fds.push_back({fd, events, 0});
    sources.push_back(source);
  }
};

Supervisor::Supervisor(SupervisorOptions options, OutputStream* out, OutputStream* err,
                       Console* console, Guard* guard, Clock* clock, FileSystem* fs)
    : options_(std::move(options)),
      out_(out),
      err_(err),
      console_(console),
      guard_(guard),
      clock_(clock),
      fs_(fs),
      policy_(options_.job),
      progress_(options_.job.worker_count),
      processes_(options_.commands.size()),
      wake_(std::make_shared<UniqueFd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {}

Supervisor::~Supervisor() = default;

absl::Status Supervisor::OpenLogs() {
  if (options_.log_folder.empty()) return absl::OkStatus();
  GW_RETURN_IF_ERROR(fs_->MakeDirs(options_.log_folder), _ << "--log-dir");
  for (size_t i = 0; i < processes_.size(); ++i) {
    const std::string name = policy_.name(static_cast<int>(i)) + ".log";
    GW_ASSIGN_OR_RETURN(processes_[i].log,
                        fs_->Open(JoinPath(options_.log_folder, name), OpenMode::kTruncate),
                        _ << "--log-dir");
  }
  return absl::OkStatus();
}

absl::Status Supervisor::Run(Future<int> interrupt) {
  if (!*wake_) return absl::ErrnoToStatus(errno, "making an event descriptor");
  interrupt_ = std::move(interrupt);
  interrupt_.OnReady([wake = wake_](const absl::StatusOr<int>&) {
    const uint64_t one = 1;
    (void)!write(wake->get(), &one, sizeof(one));
  });
  Obey(policy_.Begin());
  while (!policy_.finished()) {
    Wait();
    const absl::Time now = clock_->Now();
    Obey(policy_.OnTime(now));
    Show(now);
  }
  console_->SetStatus("");
  return absl::OkStatus();
}

void Supervisor::Wait() {
  Waiting waiting;
  waiting.fds.push_back({interrupted_ ? -1 : wake_->get(), POLLIN, 0});
  waiting.fds.push_back({log_.fd(), POLLIN, 0});
  // A reader that is slow slows down who writes to it, but not their end.
  const bool take[3] = {interrupted_ || !out_->full(), interrupted_ || !err_->full(), true};
  for (size_t i = 0; i < processes_.size(); ++i) {
    const ChildProcess* const child = processes_[i].child.get();
    if (child == nullptr) continue;
    const int process = static_cast<int>(i);
    for (int stream = 0; stream < 3; ++stream) {
      const int fd = child->fd(static_cast<Stream>(stream));
      if (fd >= 0 && take[stream]) waiting.Add(fd, POLLIN, {process, stream});
    }
    waiting.Add(child->end_fd(), POLLIN, {process, -1});
  }
  const size_t source_count = waiting.sources.size();
  for (const OutputStream* const stream : {out_, err_}) {
    if (stream->has_pending()) waiting.Add(stream->fd(), POLLOUT, {0, 0});
  }
  const absl::Duration left = std::min(policy_.next_time(), NextShow()) - clock_->Now();
  const int ready = poll(waiting.fds.data(), waiting.fds.size(),
                         left == absl::InfiniteDuration() ? -1 : Milliseconds(left));
  if (ready <= 0) return;
  out_->Flush();
  err_->Flush();
  if (waiting.fds[0].revents != 0) OnInterrupt();
  if (waiting.fds[1].revents != 0) ShowLog();
  // First what they say, then that they have ended; servers first: workers fail because of them.
  for (const bool ends : {false, true}) {
    for (size_t i = 0; i < source_count; ++i) {
      const auto [process, stream] = waiting.sources[i];
      if (waiting.fds[i + 2].revents == 0 || ends != (stream < 0)) continue;
      if (ends) {
        OnEnd(process);
      } else {
        Read(process, static_cast<Stream>(stream));
      }
    }
  }
}

void Supervisor::Obey(const JobPolicy::Orders& orders) {
  for (const auto& [action, process] : orders) {
    switch (action) {
      case JobPolicy::Action::kStart:
        Start(process);
        break;
      case JobPolicy::Action::kTerminate:
        Signal(process, SIGTERM);
        break;
      case JobPolicy::Action::kKill:
        Say(absl::StrCat(policy_.name(process), " has not ended in time; killing it"));
        Signal(process, SIGKILL);
        break;
    }
  }
}

void Supervisor::Start(int process) {
  if (!start_error_.empty()) {
    Obey(policy_.OnStartFailed(process, clock_->Now()));
    return;
  }
  Process& p = processes_[static_cast<size_t>(process)];
  auto child = ChildProcess::Start(options_.commands[static_cast<size_t>(process)],
                                   !policy_.is_server(process));
  if (!child.ok()) {
    start_error_ =
        absl::StrCat(policy_.name(process), " could not be started: ", child.status().message());
    Obey(policy_.OnStartFailed(process, clock_->Now()));
    return;
  }
  p.child = *std::move(child);
  p.last_error_line.clear();
  guard_->AddGroup(p.child->pid());
}

void Supervisor::Signal(int process, int number) {
  const auto& child = processes_[static_cast<size_t>(process)].child;
  if (child == nullptr) return;
  child->Signal(number);
  // One that is paused takes no signal but the last.
  if (number == SIGTERM) child->Signal(SIGCONT);
}

void Supervisor::OnInterrupt() {
  interrupted_ = true;
  const absl::StatusOr<int> number = interrupt_.Wait(absl::ZeroDuration());
  if (!number.ok()) return;
  Say(absl::StrCat("SIG", sigabbrev_np(*number), ": ending the job, within ",
                   absl::FormatDuration(options_.job.grace), " (once more: at once)"));
  Obey(policy_.OnInterrupt(*number, clock_->Now()));
}

void Supervisor::Read(int process, Stream stream) {
  Process& p = processes_[static_cast<size_t>(process)];
  if (p.child == nullptr) return;
  std::string bytes;
  std::vector<std::string> lines;
  LineSplitter& splitter = p.lines[static_cast<size_t>(stream)];
  if (p.child->Read(stream, bytes) == ReadResult::kEnd) {
    splitter.Finish(lines);
  } else {
    splitter.Add(bytes, lines);
  }
  TakeLines(process, stream, lines);
}

void Supervisor::TakeLines(int process, Stream stream, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  changed_ = changed_ || stream == Stream::kProgress || console_->shows_status();
  if (stream == Stream::kProgress) {
    for (const std::string& line : lines) TakeProgress(process, line);
    return;
  }
  Process& p = processes_[static_cast<size_t>(process)];
  const auto to = stream == Stream::kOut ? Console::To::kOut : Console::To::kErr;
  const std::string name = policy_.name(process);
  std::string text;
  for (const std::string& line : lines) {
    console_->Line(to, name, process, line);
    absl::StrAppend(&text, line, "\n");
    if (stream == Stream::kErr && !absl::StripAsciiWhitespace(line).empty()) {
      p.last_error_line = line;
    }
  }
  if (p.log == nullptr) return;
  if (const absl::Status written = p.log->Append(text); !written.ok()) {
    p.log = nullptr;
    Say(absl::StrCat("the log of ", name, " ends here: ", written.message()));
  }
}

void Supervisor::TakeProgress(int process, const std::string& line) {
  absl::StatusOr<Progress> progress = ParseProgress(line);
  if (!progress.ok()) {
    bool& refused = processes_[static_cast<size_t>(process)].progress_refused;
    if (!std::exchange(refused, true)) {
      Say(absl::StrCat(policy_.name(process), ": ", progress.status().message()));
    }
    return;
  }
  progress->rank = process - options_.job.server_count;  // the pipe says whose it is
  progress_.Take(*progress, clock_->Now());
}

void Supervisor::OnEnd(int process) {
  Process& p = processes_[static_cast<size_t>(process)];
  if (p.child == nullptr) return;
  const std::optional<ProcessEnd> end = p.child->Reap();
  if (!end) return;
  for (const Stream stream : {Stream::kOut, Stream::kErr, Stream::kProgress}) {
    std::string bytes;
    for (int i = 0; i < kMaxLastReads; ++i) {
      if (p.child->Read(stream, bytes) != ReadResult::kBytes) break;
    }
    std::vector<std::string> lines;
    p.lines[static_cast<size_t>(stream)].Add(bytes, lines);
    p.lines[static_cast<size_t>(stream)].Finish(lines);
    TakeLines(process, stream, lines);
  }
  guard_->RemoveGroup(p.child->pid());
  p.child = nullptr;
  if (!policy_.is_server(process)) progress_.OnEnd(process - options_.job.server_count);
  const int restarts = policy_.restart_count();
  const bool failed_before = policy_.failure().has_value();
  const JobPolicy::Orders orders = policy_.OnEnd(process, *end, clock_->Now());
  const std::string name = policy_.name(process);
  if (policy_.restart_count() != restarts) {
    Say(absl::StrCat(name, " ", end->ToString(), "; starting it again (", policy_.restart_count(),
                     " of ", options_.job.max_restarts, ")"));
  } else if (!failed_before && policy_.failure() && policy_.failure()->early) {
    Say(absl::StrCat(name, " ", end->ToString(), " before the workers did; they get ",
                     absl::FormatDuration(options_.job.server_loss), " to end"));
  } else if (!end->ok() && policy_.failure() && policy_.interrupt() == 0) {
    Say(absl::StrCat(name, " ", end->ToString()));
  }
  Obey(orders);
}

absl::Time Supervisor::NextShow() const {
  const absl::Duration interval =
      console_->shows_status() ? kRedrawInterval : options_.progress_interval;
  if (!changed_ || interval == absl::InfiniteDuration()) return absl::InfiniteFuture();
  return shown_ + interval;
}

void Supervisor::Show(absl::Time now) {
  if (now < NextShow()) return;
  if (out_->stuck()) {
    // Later.
  } else if (console_->shows_status()) {
    console_->SetStatus(progress_.Bar(out_->width()));
  } else if (!progress_.empty()) {
    console_->Text(Console::To::kOut, absl::StrCat("[run] ", progress_.Words(), "\n"));
  }
  changed_ = false;
  shown_ = now;
}

void Supervisor::Say(const std::string& text) {
  console_->Text(Console::To::kErr, absl::StrCat("gradwire run: ", text, "\n"));
  changed_ = changed_ || console_->shows_status();
}

void Supervisor::ShowLog() {
  for (const std::string& line : log_.Take()) {
    console_->Line(Console::To::kErr, "launcher", static_cast<int>(processes_.size()), line);
  }
  changed_ = changed_ || console_->shows_status();
}

void Supervisor::Finish() {
  ShowLog();
  absl::Time deadline = absl::InfiniteFuture();
  while (out_->has_pending() || err_->has_pending()) {
    if (interrupted_ && deadline == absl::InfiniteFuture()) {
      deadline = clock_->Now() + kLastWordsPatience;
    }
    const absl::Duration left = deadline - clock_->Now();
    if (left <= absl::ZeroDuration()) return;
    pollfd waiting[3] = {{interrupted_ ? -1 : wake_->get(), POLLIN, 0},
                         {out_->has_pending() ? out_->fd() : -1, POLLOUT, 0},
                         {err_->has_pending() ? err_->fd() : -1, POLLOUT, 0}};
    if (poll(waiting, 3, interrupted_ ? Milliseconds(left) : -1) < 0) continue;
    interrupted_ = interrupted_ || waiting[0].revents != 0;
    out_->Flush();
    err_->Flush();
  }
}

std::string Supervisor::error() const {
  if (!start_error_.empty()) return start_error_;
  const std::optional<JobPolicy::Failure>& failure = policy_.failure();
  if (!failure) return "";
  const int process = failure->process;
  std::string text = absl::StrCat(policy_.name(process), " ", failure->end.ToString());
  if (failure->early && failure->end.ok()) text += " before the workers had ended";
  std::string why = processes_[static_cast<size_t>(process)].last_error_line;
  if (!policy_.is_server(process)) {
    why = progress_.error(process - options_.job.server_count).value_or(why);
  }
  if (why.size() > kMaxShownErrorBytes) why = why.substr(0, kMaxShownErrorBytes) + "...";
  if (!why.empty()) absl::StrAppend(&text, ": ", why);
  return text;
}

}  // namespace gradwire::launch
