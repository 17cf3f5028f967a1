// An agent as a process, for tests: flags in, one line out when it is ready, commands on stdin.
// Leaves on SIGTERM, on SIGINT, and when stdin ends, and says how that went.
#include "tests/rpc/agent_process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/agent.h"
#include "rpc/agent_flags.h"
#include "rpc/base/log.h"
#include "rpc/base/options.h"
#include "rpc/base/status.h"
#include "rpc/base/termination.h"
#include "rpc/tensor/values.h"

namespace gradwire::rpc::testing {
namespace {

// A process manager kills after 5 s or more. For the goodbyes, then for handlers to return.
constexpr absl::Duration kTimeToLeave = absl::Seconds(3);
constexpr absl::Duration kTimeToEnd = absl::Seconds(1);

void Say(const std::string& line) {
  const std::string words = line + "\n";
  // One write: lines of two threads don't mix. The test is gone when it fails.
  if (write(STDOUT_FILENO, words.data(), words.size()) < 0) _exit(1);
}

std::string LineOf(const absl::StatusOr<std::string>& outcome) {
  if (!outcome.ok()) return testing::LineOf(outcome.status());
  return "0 " + absl::CEscape(*outcome);
}

Registry Functions() {
  static std::atomic<int64_t> held{0};
  Registry functions;
  functions.Bind(kEcho, [](const std::string& text) { return text; })
      .Bind(kWho, [](CallInfo& call) { return call.caller(); })
      .Bind(kPid, [] { return int64_t{getpid()}; })
      .Bind(kStuck,
            [] {
              ++held;
              Promise<void> never;
              while (true) (void)never.future().Wait(absl::Hours(1));
            })
      .Bind(kHeldCount, [] { return held.load(); })
      .Bind(kHold, [](CallInfo& call, const std::string&) {
        auto promise = std::make_shared<Promise<std::string>>();
        Future<std::string> future = promise->future();
        ++held;
        call.OnCancel([promise] {
          --held;
          promise->Set(absl::CancelledError("given up"));
        });
        return future;
      });
  return functions;
}

absl::StatusOr<std::string> Answer(Agent& agent, const std::string& line) {
  const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (words.size() == 2 && words[0] == "connect") {
    GW_RETURN_IF_ERROR(agent.Connect(words[1]).status());
    return std::string("connected");
  }
  if (words.size() == 3 && words[0] == "call") {
    return agent.At(words[1]).Call(kEcho(words[2]), {.timeout = absl::Seconds(20)});
  }
  return absl::InvalidArgumentError(absl::StrCat("not a command: ", line));
}

// Answers commands until `ended` can be read.
void Serve(Agent& agent, int ended) {
  std::string heard;
  bool listening = true;
  while (true) {
    pollfd waiting[2] = {{ended, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    if (poll(waiting, listening ? 2 : 1, -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (count <= 0) {
      listening = false;
      kill(getpid(), SIGTERM);  // one way out
      continue;
    }
    heard.append(bytes, static_cast<size_t>(count));
    for (size_t end; (end = heard.find('\n')) != std::string::npos; heard.erase(0, end + 1)) {
      Say(LineOf(Answer(agent, heard.substr(0, end))));
    }
  }
}

int Main(const std::vector<std::string>& arguments) {
  TerminationSignals signals;
  signal(SIGPIPE, SIG_IGN);

  AgentOptions options;
  options.functions = Functions();
  OptionTable table;
  AddAgentOptions(table, &options);
  const auto parsed =
      table.Parse(arguments, [](const std::string&) { return std::nullopt; }, FileSystem::Real());
  if (!parsed.ok()) {
    Say(testing::LineOf(parsed.status()));
    return 2;
  }
  absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::Start(std::move(options));
  if (!agent.ok()) {
    Say(testing::LineOf(agent.status()));
    return 1;
  }
  int ended[2];
  if (pipe(ended) != 0) return 1;
  Promise<void> destroyed;
  std::thread leaving([&, gone = destroyed.future()] {
    (void)signals.received().Wait(absl::InfiniteFuture());
    Say(absl::StrCat("left ", testing::LineOf((*agent)->Leave(kTimeToLeave))));
    close(ended[1]);
    if (gone.Wait(kTimeToEnd).ok()) return;
    GW_LOG(ERROR) << "a handler has not returned; ending without it";
    // Not _exit: the thread sanitizer takes threads that are left on purpose for a leak.
    syscall(SYS_exit_group, 1);
  });
  Say(absl::StrCat("ready ", (*agent)->incarnation().value, " ", (*agent)->address()));
  Serve(**agent, ended[0]);
  agent->reset();  // waits for handlers that run
  destroyed.Set(absl::OkStatus());
  leaving.join();
  return 0;
}

}  // namespace
}  // namespace gradwire::rpc::testing

int main(int argc, char** argv) {
  return gradwire::rpc::testing::Main(std::vector<std::string>(argv + 1, argv + argc));
}
