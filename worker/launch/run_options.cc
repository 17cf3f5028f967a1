#include "worker/launch/run_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rpc/base/status.h"
#include "worker/launch/program.h"

namespace gradwire::launch {
namespace {

constexpr char kAbout[] =
    "Runs a job on this machine: starts S servers as BINARY ps and W workers as BINARY worker "
    "ARGS, lets them find each other, shows what they print and how far they are, and ends with "
    "the job's exit status. Usage: gradwire run --servers=S --workers=W -- BINARY ARGS...";

void AddRows(OptionTable& table, RunOptions& options) {
  table.Group("Job");
  table.Add({.name = "servers", .help = "Parameter servers to start, as ps0, ps1, ..."},
            &options.job.server_count, 0, kMaxServers);
  table.Add({.name = "workers", .help = "Workers to start, as worker0, worker1, ..."},
            &options.job.worker_count, 1, kMaxWorkers);
  table.Add(
      {.name = "server-arg",
       .unit = "flag",
       .help = "A flag for the servers, as --server-arg=--memory-limit=8GiB. May be repeated; "
               "a comma separates two."},
      &options.server_arguments);
  table.Add({.name = "job-id",
             .help = "Name of the job; processes of different jobs refuse each "
                     "other."},
            &options.job_id);
  table.Add({.name = "port",
             .help = "Port of the rendezvous on the loopback interface. 0: any free one."},
            &options.port, 0, 65535);

  table.Group("Failures");
  table.Add({.name = "max-restarts",
             .help = "How often a worker that failed is started again, all workers together."},
            &options.job.max_restarts, 0, 1'000'000);
  table.Add({.name = "grace",
             .help = "How long the end may take after SIGINT or SIGTERM, and for the servers after "
                     "the last worker. Who is still there after seven tenths of it is killed."},
            &options.job.grace, absl::Milliseconds(10), absl::Hours(24));
  table.Add({.name = "server-loss",
             .help = "How long workers may take to end by themselves when a server has ended "
                     "before them; then they are told to."},
            &options.job.server_loss, absl::ZeroDuration(), absl::Hours(24));

  table.Group("Output");
  table.Add({.name = "progress-interval",
             .help = "How often a progress line is printed where the output is no terminal. inf: "
                     "never."},
            &options.progress_interval, absl::Milliseconds(10));
  table.Add({.name = "log-dir",
             .unit = "folder",
             .help = "Also writes what each process prints into a file there, as ps0.log."},
            &options.log_folder);
  table.Add({.name = "summary",
             .unit = "path",
             .help = "Also writes the summary there, as lines \"key = value\"."},
            &options.summary_path);
}

// Takes every --server-arg out of the flags of `run`: its value is a flag as it is, commas and all.
std::vector<std::string> TakeServerArguments(std::vector<std::string>& arguments) {
  constexpr absl::string_view kFlag = "--server-arg";
  std::vector<std::string> taken;
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> kept;
  for (auto one = arguments.begin(); one != end; ++one) {
    absl::string_view text = *one;
    if (absl::ConsumePrefix(&text, kFlag) && absl::ConsumePrefix(&text, "=")) {
      taken.emplace_back(text);
    } else if (*one == kFlag && one + 1 != end) {
      taken.push_back(*++one);
    } else {
      kept.push_back(*one);
    }
  }
  kept.insert(kept.end(), end, arguments.end());
  arguments = std::move(kept);
  return taken;
}

}  // namespace

absl::StatusOr<RunOptions> ParseRunOptions(const std::vector<std::string>& arguments,
                                           const Environment& environment, FileSystem& fs) {
  RunOptions options;
  OptionTable table;
  AddRows(table, options);
  std::string help = table.Help("gradwire run", kAbout);
  std::vector<std::string> others = arguments;
  std::vector<std::string> server_arguments = TakeServerArguments(others);
  GW_ASSIGN_OR_RETURN(ParsedArguments parsed, table.Parse(others, environment, fs));
  if (!server_arguments.empty()) options.server_arguments = std::move(server_arguments);
  if (parsed.help) {
    options.help = std::move(help);
    return options;
  }
  if (parsed.positional.empty()) {
    return absl::InvalidArgumentError(
        "no program to run; name it after the flags and \"--\", as gradwire run --servers=1 "
        "--workers=2 -- build/bin/worker --job=mnist");
  }
  GW_ASSIGN_OR_RETURN(parsed.positional[0], FindProgram(parsed.positional[0], environment, fs));
  options.command = std::move(parsed.positional);
  return options;
}

std::vector<std::vector<std::string>> JobCommands(const RunOptions& options,
                                                  const std::string& rendezvous,
                                                  const std::string& token_path) {
  std::vector<std::string> common = {"--rendezvous=" + rendezvous, "--token-file=" + token_path,
                                     absl::StrCat("--servers=", options.job.server_count),
                                     absl::StrCat("--workers=", options.job.worker_count)};
  if (options.job_id != "default") common.push_back("--job-id=" + options.job_id);
  std::vector<std::vector<std::string>> commands;
  const JobPolicy names(options.job);
  const int count = options.job.server_count + options.job.worker_count;
  for (int process = 0; process < count; ++process) {
    const bool server = names.is_server(process);
    std::vector<std::string> command = {options.command[0], server ? "ps" : "worker",
                                        "--name=" + names.name(process)};
    if (!server) command.push_back(absl::StrCat("--rank=", process - options.job.server_count));
    command.insert(command.end(), common.begin(), common.end());
    const auto& more = server ? options.server_arguments : options.command;
    // Last, so that what the user says decides.
    command.insert(command.end(), more.begin() + (server ? 0 : 1), more.end());
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace gradwire::launch
