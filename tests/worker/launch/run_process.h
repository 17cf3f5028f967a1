// `gradwire run` in a process of its own, for tests: what it prints, how it ends, and what it
// leaves behind.
#pragma once

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/base/unique_fd.h"

namespace gradwire::launch::testing {

inline constexpr absl::Duration kPatience = absl::Seconds(60);

// A folder of the test's own, removed with all that is in it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const;

 private:
  std::string path_;
};

// Dies with its object, and with the test's process.
// Thread-safety: none.
class RunProcess {
 public:
  struct Options {
    bool terminal = false;          // stdout and stderr are one terminal, of 100 columns
    bool stdout_to_nobody = false;  // a pipe whose reader has gone
    bool stdout_unread = false;     // a pipe that nobody reads
    bool plain = false;             // the arguments are a whole command, without gradwire
    std::vector<std::string> environment = {};  // more of it, as NAME=value
  };

  // Starts gradwire with these arguments.
  static std::unique_ptr<RunProcess> Start(const std::vector<std::string>& arguments,
                                           Options options);
  static std::unique_ptr<RunProcess> Start(const std::vector<std::string>& arguments) {
    return Start(arguments, Options());
  }
  // Starts `gradwire run flags -- fake_role arguments`.
  static std::unique_ptr<RunProcess> Job(std::vector<std::string> flags,
                                         const std::vector<std::string>& arguments,
                                         Options options);
  static std::unique_ptr<RunProcess> Job(std::vector<std::string> flags,
                                         const std::vector<std::string>& arguments) {
    return Job(std::move(flags), arguments, Options());
  }
  // The programs' paths.
  static const char* Gradwire();
  static const char* FakeRole();
  ~RunProcess();
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);
  // Its exit status, or 128 + signal; -1 when it has not ended in time. Reads all output.
  int WaitForEnd(absl::Duration timeout = kPatience);
  // Reads until the output (a terminal's, or stdout's) has `text`.
  bool WaitForOutput(absl::string_view text, absl::Duration timeout = kPatience);
  bool WaitForErrors(absl::string_view text, absl::Duration timeout = kPatience);
  const std::string& out() const { return out_text_; }
  const std::string& err() const { return err_text_; }
  // The number behind "[name] pid ".
  pid_t PidOf(const std::string& name);

  // Processes that came from this one, itself too, as long as they live.
  std::set<pid_t> Living() const;
  // Waits until all have ended, and its TMPDIR is empty. What is left, for the test's message.
  std::string Left(absl::Duration timeout = kPatience) const;
  // Files in its TMPDIR.
  std::vector<std::string> Files() const { return folder_.Names(); }

 private:
  RunProcess() = default;
  // Reads what comes until `deadline` or the end of both; false: nothing came.
  bool ReadSome(absl::Time deadline);

  TestFolder folder_;
  std::string mark_;  // in the environment of all
  pid_t pid_ = -1;
  UniqueFd out_, err_, end_;
  UniqueFd unread_;
  std::string out_text_, err_text_;
};

}  // namespace gradwire::launch::testing
