// Plays a server and a worker for tests of `gradwire run`: joins the job by the real flags, then
// does what --do says, one action after the other, joined by "+":
//
//   say:TEXT err:TEXT   a line to stdout, to stderr        raw:HEX   these bytes to stdout
//   long:N              N letters to stdout, no line end   pid       says its number
//   fds                 says what it found open            token     says the token file's mode
//   train               writes progress as a worker that trains 100 rows, with a quality
//   progress:TEXT       writes TEXT as a progress line     last:TEXT the last one, with an error
//   exit:N  kill:N      ends with a status, by a signal    once:PATH ends with 3 the first time
//   wait                until SIGTERM                      stuck     for ever, whatever comes
//   server              until ps0 is lost, and fails       child     starts a process, that waits
//   flood               writes lines for ever                file:PATH until that is there
//
// Without --do a server waits for SIGTERM and a worker trains. --only=R: --do is for rank R alone.
#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rpc/agent.h"
#include "rpc/agent_flags.h"
#include "rpc/base/fs.h"
#include "rpc/base/options.h"
#include "rpc/base/status.h"
#include "rpc/base/termination.h"
#include "rpc/tensor/values.h"
#include "tests/support/wait.h"
#include "worker/launch/progress_writer.h"

namespace gradwire::launch {
namespace {

constexpr rpc::Function<void()> kHold{"test.hold"};
constexpr absl::Duration kTimeToLeave = absl::Seconds(2);

struct Role {
  bool is_server = false;
  rpc::AgentOptions agent_options;
  int servers = -1;
  int workers = -1;
  std::string actions;
  int only = -1;
  std::string descriptors;  // when it started

  std::unique_ptr<rpc::Agent> agent;
  std::unique_ptr<TerminationSignals> signals;
  ProgressWriter progress;
};

void Print(FILE* stream, const std::string& text) {
  fputs(text.c_str(), stream);
  fflush(stream);
}

[[noreturn]] void Exit(Role& role, int status) {
  if (role.agent != nullptr) (void)role.agent->Leave(kTimeToLeave);
  fflush(nullptr);
  _exit(status);
}

std::string Descriptors() {
  std::set<int> all;
  DIR* const entries = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(entries)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != dirfd(entries)) all.insert(fd);
  }
  closedir(entries);
  return absl::StrJoin(all, " ");
}

void Train(Role& role) {
  Progress p = {.rank = role.agent_options.rank,
                .epoch = 1,
                .epoch_count = 2,
                .row_count = 100,
                .rows_per_second = 50,
                .loss = 2,
                .staleness = 1.5};
  for (p.rows = 25; p.rows <= 100; p.rows += 25) {
    p.epoch = p.rows <= 50 ? 1 : 2;
    *p.loss /= 2;
    p.split = {.data = absl::Milliseconds(p.rows),
               .pull = absl::Milliseconds(2 * p.rows),
               .compute = absl::Milliseconds(6 * p.rows),
               .push = absl::Milliseconds(p.rows),
               .wait = absl::ZeroDuration()};
    p.done = p.rows == 100;
    if (p.done) p.quality = Quality{"accuracy", 0.9 + 0.01 * p.rank};
    role.progress.Write(p);
  }
}

void WaitForServer(Role& role) {
  const absl::Status status = role.agent->At("ps0").Call(kHold(), {.timeout = absl::Hours(1)});
  Print(stderr, absl::StrCat("lost: ", status.message(), "\n"));
  Exit(role, 1);
}

[[noreturn]] void Stuck() {
  while (true) pause();
}

void Do(Role& role, const std::string& action) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(action, absl::MaxSplits(':', 1));
  const auto& [what, text] = parts;
  int number = 0;
  (void)absl::SimpleAtoi(text, &number);
  if (what == "say") {
    Print(stdout, text + "\n");
  } else if (what == "err") {
    Print(stderr, text + "\n");
  } else if (what == "raw") {
    const std::string bytes = absl::HexStringToBytes(text);
    fwrite(bytes.data(), 1, bytes.size(), stdout);
    fflush(stdout);
  } else if (what == "long") {
    Print(stdout, std::string(static_cast<size_t>(number), 'x'));
  } else if (what == "pid") {
    Print(stdout, absl::StrCat("pid ", getpid(), "\n"));
  } else if (what == "fds") {
    Print(stdout, absl::StrCat("fds ", role.descriptors, "\n"));
  } else if (what == "token") {
    struct stat info = {};
    stat(role.agent_options.token_file.c_str(), &info);
    Print(stdout, absl::StrCat("token ", absl::Hex(info.st_mode & 0777), " ", info.st_size, "\n"));
  } else if (what == "train") {
    Train(role);
  } else if (what == "progress") {
    const std::string line = text + "\n";
    if (write(3, line.data(), line.size()) < 0) Exit(role, 9);
  } else if (what == "last") {
    role.progress.Write({.rank = role.agent_options.rank, .done = true, .error = text});
  } else if (what == "exit") {
    Exit(role, number);
  } else if (what == "kill") {
    fflush(nullptr);
    kill(getpid(), number);
    Stuck();
  } else if (what == "once") {
    const auto made = FileSystem::Real().Open(text, OpenMode::kCreateNew);
    if (made.ok()) Exit(role, 3);
  } else if (what == "wait") {
    (void)role.signals->received().Wait(absl::InfiniteFuture());
    Print(stdout, "told to end\n");
    Exit(role, 0);
  } else if (what == "stuck") {
    Stuck();
  } else if (what == "server") {
    WaitForServer(role);
  } else if (what == "child") {
    char* const words[] = {const_cast<char*>("sleep"), const_cast<char*>("3600"), nullptr};
    pid_t child = -1;
    if (posix_spawnp(&child, words[0], nullptr, nullptr, words, environ) != 0) Exit(role, 9);
  } else if (what == "file") {
    gradwire::testing::WaitUntil([&] { return FileSystem::Real().Stat(text).ok(); },
                                 absl::Seconds(60));
  } else if (what == "flood") {
    while (true) puts("one of very many lines");
  } else {
    Print(stderr, "no action: " + action + "\n");
    Exit(role, 2);
  }
}

absl::Status Join(Role& role, const std::vector<std::string>& arguments) {
  OptionTable table;
  rpc::AddAgentOptions(table, &role.agent_options);
  table.Add({.name = "servers", .help = "How many."}, &role.servers);
  table.Add({.name = "workers", .help = "How many."}, &role.workers);
  table.Add({.name = "do", .help = "What to do."}, &role.actions);
  table.Add({.name = "only", .help = "For this rank."}, &role.only);
  GW_RETURN_IF_ERROR(table.Parse(arguments, ProcessEnvironment(), FileSystem::Real()).status());
  GW_ASSIGN_OR_RETURN(role.progress, ProgressWriter::FromEnvironment(ProcessEnvironment()));
  if (role.is_server) {
    // Ends with the process, or with the call.
    role.agent_options.functions.Bind(kHold, [](rpc::CallInfo& call) {
      auto promise = std::make_shared<Promise<void>>();
      Future<void> future = promise->future();
      call.OnCancel([promise] { promise->Set(absl::CancelledError("given up")); });
      return future;
    });
  }
  // An open world: one that is started again must not wait for those that have gone.
  rpc::AgentOptions options = role.agent_options;
  options.rank = -1;
  GW_ASSIGN_OR_RETURN(role.agent, rpc::Agent::Start(options));
  for (int i = 0; !role.is_server && i < role.servers; ++i) {
    GW_RETURN_IF_ERROR(role.agent->Connect(absl::StrCat("ps", i)).status());
  }
  return absl::OkStatus();
}

int Main(const std::string& name, const std::vector<std::string>& arguments) {
  Role role;
  role.is_server = name == "ps";
  role.descriptors = Descriptors();
  role.signals = std::make_unique<TerminationSignals>();
  if (const absl::Status joined = Join(role, arguments); !joined.ok()) {
    Print(stderr, absl::StrCat(joined.message(), "\n"));
    Exit(role, 1);
  }
  if (role.actions.empty() || (role.only >= 0 && role.only != role.agent_options.rank)) {
    role.actions = role.is_server ? "wait" : "train";
  }
  for (const std::string& action : std::vector<std::string>(absl::StrSplit(role.actions, '+'))) {
    Do(role, action);
  }
  if (role.is_server) Do(role, "wait");
  Exit(role, 0);
}

}  // namespace
}  // namespace gradwire::launch

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  return gradwire::launch::Main(argv[1], std::vector<std::string>(argv + 2, argv + argc));
}
