// A second process of the launcher that cleans up should the launcher be killed: it ends the
// process groups that are left and removes the private folder.
//
// The system already kills the launcher's own children with it (ChildProcess); what those started,
// and files, are left to this. It waits for the end of a pipe whose only writer is the launcher, so
// it acts whatever ended that one, and uses no time until then.
//
// Ownership:     the process ends with this object, or with the launcher.
// Thread-safety: none. Start it while the process has one thread, before anything else.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/unique_fd.h"

namespace gradwire::launch {

class Guard {
 public:
  static absl::StatusOr<Guard> Start();
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&&) = delete;
  // Lets it do what is left to do, and waits for that.
  ~Guard();

  void AddGroup(pid_t group);
  void RemoveGroup(pid_t group);
  // A folder without folders in it, of a path without line breaks.
  void AddFolder(const std::string& path);

  pid_t pid() const { return pid_; }

 private:
  Guard(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void Tell(const std::string& line);

  pid_t pid_;
  UniqueFd pipe_;
};

}  // namespace gradwire::launch
