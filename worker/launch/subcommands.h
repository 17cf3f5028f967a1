// The subcommands of `gradwire`, one file each.
//
// Each takes its arguments without "gradwire" and its own name, and gives the exit status of the
// process: 2 for a command line that can't be understood.
//
// Thread-safety: each is called once, by the process's first thread, while it is the only one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gradwire::launch {

// Runs a job on this machine (run.cc).
int Run(const std::vector<std::string>& arguments);
// Becomes the program of a role, "ps" or "worker" (role.cc). Returns only if that fails.
int BecomeRole(absl::string_view role, const std::vector<std::string>& arguments);

}  // namespace gradwire::launch
