// gradwire run: a job on this machine.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent.h"
#include "rpc/base/status.h"
#include "rpc/base/termination.h"
#include "worker/launch/guard.h"
#include "worker/launch/private_folder.h"
#include "worker/launch/run_options.h"
#include "worker/launch/subcommands.h"
#include "worker/launch/summary.h"
#include "worker/launch/supervisor.h"

namespace gradwire::launch {
namespace {

// The processes have ended; what is left is to close sockets.
constexpr absl::Duration kTimeToLeave = absl::Milliseconds(100);

// Where the processes find each other.
absl::StatusOr<std::unique_ptr<rpc::Agent>> ServeRendezvous(const RunOptions& options,
                                                            const std::string& token_path) {
  rpc::AgentOptions agent;
  agent.name = "launcher";
  agent.job = options.job_id;
  agent.listen = absl::StrCat("127.0.0.1:", options.port);
  agent.serve_rendezvous = true;
  agent.token_file = token_path;
  // A worker that is started again waits until its last life is known to be over. On one machine a
  // connection is lost with its process, or while that is paused: then it joins again.
  agent.limits.resume_window = absl::Seconds(1);
  auto started = rpc::Agent::Start(std::move(agent));
  GW_RETURN_IF_ERROR(started.status(),
                     _ << "serving the rendezvous (--port=" << options.port << ")");
  return started;
}

// What one run has. Members go in the reverse order: the guard last, so that it sees to whatever
// the others leave.
class JobRun {
 public:
  JobRun(RunOptions options, Guard guard, const Environment& environment)
      : options_(std::move(options)),
        guard_(std::move(guard)),
        started_(Clock::Real().Now()),
        environment_(environment),
        out_(STDOUT_FILENO),
        own_err_(STDERR_FILENO),
        err_(OutputStream::Same(STDOUT_FILENO, STDERR_FILENO) ? &out_ : &own_err_),
        console_(&out_, err_, environment) {}

  absl::StatusOr<int> Run() {
    GW_ASSIGN_OR_RETURN(PrivateFolder folder,
                        PrivateFolder::Make(environment_, Rng::Secure(), guard_));
    GW_ASSIGN_OR_RETURN(const std::string token_path, folder.WriteToken(Rng::Secure()));
    GW_ASSIGN_OR_RETURN(const auto agent, ServeRendezvous(options_, token_path));
    SupervisorOptions options = {
        .job = options_.job,
        .commands = JobCommands(options_, "tcp://" + agent->address(), token_path),
        .progress_interval = options_.progress_interval,
        .log_folder = options_.log_folder};
    Supervisor supervisor(std::move(options), &out_, err_, &console_, &guard_, &Clock::Real(),
                          &FileSystem::Real());
    GW_RETURN_IF_ERROR(supervisor.OpenLogs());
    GW_RETURN_IF_ERROR(supervisor.Run(signals_.received()));
    const int exit_status = Conclude(supervisor);
    (void)agent->Leave(kTimeToLeave);
    return exit_status;
  }

 private:
  int Conclude(Supervisor& supervisor) {
    const JobProgress& progress = supervisor.progress();
    Summary summary = {.exit_status = supervisor.policy().exit_status(),
                       .error = supervisor.error(),
                       .server_count = options_.job.server_count,
                       .worker_count = options_.job.worker_count,
                       .restart_count = supervisor.policy().restart_count(),
                       .time = Clock::Real().Now() - started_,
                       .progress = &progress};
    if (progress.first_step()) summary.time_to_first_step = *progress.first_step() - started_;
    std::string error = summary.error;
    if (!options_.summary_path.empty()) {
      const absl::Status written =
          FileSystem::Real().WriteAtomically(options_.summary_path, SummaryLines(summary));
      if (!written.ok()) {
        // Whoever asked for it must not take an old one for this one's.
        absl::StrAppend(&error,
                        error.empty() ? "" : "\ngradwire run: ", "--summary: ", written.message());
        if (summary.exit_status == 0) summary.exit_status = 1;
      }
    }
    console_.Text(Console::To::kOut, SummaryText(summary));
    if (!error.empty()) {
      if (err_->is_terminal()) error = ForTerminal(error);
      console_.Text(Console::To::kErr, absl::StrCat("gradwire run: ", error, "\n"));
    }
    supervisor.Finish();
    return summary.exit_status;
  }

  const RunOptions options_;
  Guard guard_;
  const absl::Time started_;
  const Environment& environment_;
  TerminationSignals signals_;
  OutputStream out_, own_err_;
  OutputStream* const err_;
  Console console_;
};

void Complain(const absl::Status& status) {
  const std::string text = absl::StrCat("gradwire run: ", status.message(), "\n");
  fputs(text.c_str(), stderr);
}

}  // namespace

int Run(const std::vector<std::string>& arguments) {
  OutputStream::FillStandardStreams();
  const Environment environment = ProcessEnvironment();
  absl::StatusOr<RunOptions> options = ParseRunOptions(arguments, environment, FileSystem::Real());
  if (!options.ok()) {
    Complain(options.status());
    return 2;
  }
  if (!options->help.empty()) {
    fputs(options->help.c_str(), stdout);
    return 0;
  }
  // Before anything makes a thread.
  absl::StatusOr<Guard> guard = Guard::Start();
  if (!guard.ok()) {
    Complain(guard.status());
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<int> exit_status =
      JobRun(*std::move(options), *std::move(guard), environment).Run();
  if (exit_status.ok()) return *exit_status;
  Complain(exit_status.status());
  return 1;
}

}  // namespace gradwire::launch
