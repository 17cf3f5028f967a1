// An agent in a process of its own, for tests that kill, pause and watch it: what it serves, and
// the test's hold on it. The process itself is agent_process.cc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/base/unique_fd.h"
#include "rpc/function.h"

namespace gradwire::rpc::testing {

// What the process serves.
inline constexpr Function<std::string(std::string)> kEcho{"test.echo"};
// Never returns; ends when the caller gives it up.
inline constexpr Function<std::string(std::string)> kHold{"test.hold"};
// Never returns, and keeps its thread.
inline constexpr Function<void()> kStuck{"test.stuck"};
// How many kHold and kStuck run.
inline constexpr Function<int64_t()> kHeldCount{"test.held_count"};
inline constexpr Function<int64_t()> kPid{"test.pid"};
inline constexpr Function<std::string()> kWho{"test.who"};

// The process dies with this object, and with the test's process.
// Thread-safety: none.
class AgentProcess {
 public:
  // Starts it with these flags (agent_process.cc has them). Its first words tell how it went:
  // status(), address() and incarnation().
  static std::unique_ptr<AgentProcess> Start(const std::vector<std::string>& flags);
  // Kills what still runs, and waits for it.
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Why it is not running; as Agent::Start said it.
  const absl::Status& status() const { return status_; }
  const std::string& address() const { return address_; }
  uint64_t incarnation() const { return incarnation_; }
  pid_t pid() const { return pid_; }

  // Says a line to it and gives its answer: "connect PEER" or "call PEER TEXT" (kEcho), answered by
  // a status or the text.
  absl::StatusOr<std::string> Ask(const std::string& line);
  // The next line that it says. DEADLINE_EXCEEDED; UNAVAILABLE: it says nothing more.
  absl::StatusOr<std::string> ReadLine(absl::Duration timeout = absl::Seconds(30));

  void Signal(int signal);
  // SIGSTOP, and every thread of it stands still. SIGCONT lets it go on.
  void Pause();
  // How it ended, as waitpid tells it. DEADLINE_EXCEEDED.
  absl::StatusOr<int> WaitForEnd(absl::Duration timeout);

  int64_t ResidentBytes() const;
  int SocketCount() const;
  // What it has logged so far.
  std::string Log() const;

 private:
  AgentProcess() = default;

  pid_t pid_ = -1;  // -1: waited for
  UniqueFd pid_fd_, to_, from_, log_;
  std::string heard_;  // beyond the last line
  absl::Status status_;
  std::string address_;
  uint64_t incarnation_ = 0;
};

// A status as a line of the process.
inline std::string LineOf(const absl::Status& status) {
  return absl::StrCat(static_cast<int>(status.code()), " ", absl::CEscape(status.message()));
}

}  // namespace gradwire::rpc::testing
