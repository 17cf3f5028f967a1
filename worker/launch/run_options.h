// The command line of `gradwire run`.
//
// Thread-safety: stateless.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/fs.h"
#include "rpc/base/options.h"
#include "worker/launch/job_policy.h"

namespace gradwire::launch {

inline constexpr int kMaxServers = 64;
inline constexpr int kMaxWorkers = 128;

struct RunOptions {
  JobPolicyOptions job = {.server_count = 1, .worker_count = 2};
  std::vector<std::string> server_arguments = {};
  std::string job_id = "default";
  int port = 0;
  absl::Duration progress_interval = absl::Seconds(2);
  std::string log_folder = {};
  std::string summary_path = {};
  std::vector<std::string> command = {};  // the program's path, and the workers' arguments
  std::string help = {};                  // not empty: --help was asked for, and nothing else set
};

// INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION: what is wrong, and what would be right.
absl::StatusOr<RunOptions> ParseRunOptions(const std::vector<std::string>& arguments,
                                           const Environment& environment, FileSystem& fs);

// The command line of each process, by its number in JobPolicy.
std::vector<std::vector<std::string>> JobCommands(const RunOptions& options,
                                                  const std::string& rendezvous,
                                                  const std::string& token_path);

}  // namespace gradwire::launch
