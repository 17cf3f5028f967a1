#include "worker/worker_main.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rpc/agent.h"
#include "rpc/agent_flags.h"
#include "rpc/base/log.h"
#include "rpc/base/termination.h"
#include "server/server.h"
#include "worker/gathering.h"
#include "worker/job.h"

namespace gradwire::worker {
namespace {

// Of the 5 s in which a process has to be gone after SIGTERM: for the step under way, for leaving.
constexpr absl::Duration kStepGrace = absl::Seconds(2);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);

struct Flags {
  std::string job;
  JobFlags settings;
  rpc::AgentOptions agent;
  int servers = 1;
  int workers = 1;
  int threads = 1;
  bool local = false;
};

void AddOptions(OptionTable& table, Flags& flags) {
  table.Group("Training");
  table.Add(
      {.name = "job",
       .help = absl::StrCat("What to train: ", absl::StrJoin(JobRegistry::Names(), ", "), ".")},
      &flags.job);
  table.Add({.name = "epochs", .help = "Passes over the data. 0: the job's own default."},
            &flags.settings.epochs, int64_t{0}, int64_t{1'000'000});
  table.Add({.name = "batch-rows", .help = "Rows of a batch. 0: the job's own default."},
            &flags.settings.batch_rows, int64_t{0}, int64_t{1} << 24);
  table.Add({.name = "lr", .help = "Learning rate. -1: the job's own default."}, &flags.settings.lr,
            -1.0, 1e6);
  table.Add({.name = "overlap",
             .help = "Sends and receives dense weights while the next batch is computed: less "
                     "waiting, a step more of staleness."},
            &flags.settings.overlap);
  table.Add({.name = "seed",
             .help = "Of initial values and the order of the data; the same for all workers."},
            &flags.settings.seed);
  table.Add({.name = "data-dir", .unit = "folder", .help = "Where the data files are."},
            &flags.settings.data_dir);
  table.Add({.name = "threads", .help = "Threads of libtorch in this process."}, &flags.threads, 1,
            1024);
  table.Add({.name = "set",
             .unit = "name=value",
             .help = "Settings of a job's own, several with commas; an unknown name shows which "
                     "there are."},
            &flags.settings.settings);
  table.Add({.name = "tensorboard",
             .unit = "folder",
             .help = "Writes loss, speed, quality and step split for TensorBoard, in a folder a "
                     "worker. Empty: nowhere."},
            &flags.settings.tensorboard);
  table.Add({.name = "save",
             .unit = "file",
             .help = "Where worker0 writes the trained model, as safetensors. Empty: nowhere."},
            &flags.settings.save);
  table.Add({.name = "report-every", .help = "How often progress is reported."},
            &flags.settings.report_every, absl::Milliseconds(1), absl::Hours(1));
  table.Add(
      {.name = "servers", .help = "Parameter servers of the job; their names are ps0, ps1, ...."},
      &flags.servers, 1, 4096);
  table.Add(
      {.name = "workers", .help = "Workers of the job; their names are worker0, worker1, ...."},
      &flags.workers, 1, 4096);
  table.Add({.name = "local",
             .help = "Trains in this process alone, tables included, with the same rules: no "
                     "servers, no other workers."},
            &flags.local);
  rpc::AddAgentOptions(table, &flags.agent);
}

// Also gives the --help text, whose defaults are those from before.
absl::StatusOr<ParsedArguments> ParseFlags(const std::vector<std::string>& arguments, Flags& flags,
                                           const std::string& program, std::string* help) {
  OptionTable table;
  AddOptions(table, flags);
  GW_ASSIGN_OR_RETURN(ParsedArguments parsed,
                      table.Parse(arguments, ProcessEnvironment(), FileSystem::Real()));
  *help = table.Help(program, "Trains a model with the parameter servers of its job.");
  if (!parsed.help && !parsed.positional.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown argument ", parsed.positional[0], "; see ", program, " --help"));
  }
  if (const double lr = flags.settings.lr; lr < 0 && lr != -1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "option lr: ", lr, " is not allowed; allowed is -1 (the job's own) or a number from 0"));
  }
  return parsed;
}

// Starts the agent under the name of its rank; with no rank, under the first one that is free.
absl::StatusOr<std::unique_ptr<rpc::Agent>> StartAgent(Flags& flags, int* rank) {
  rpc::AgentOptions options = flags.agent;
  *rank = std::exchange(options.rank, -1);  // of workers; agents as such need none
  if (*rank >= flags.workers) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", *rank, " of ", flags.workers,
                                                   " workers; ranks count from 0 (--workers)"));
  }
  const bool any = *rank < 0 && !flags.local && options.name.empty();
  if (*rank < 0) *rank = 0;
  const bool named = !options.name.empty();
  while (true) {
    if (!named) options.name = absl::StrCat("worker", *rank);
    absl::StatusOr<std::unique_ptr<rpc::Agent>> agent = rpc::Agent::Start(options);
    if (!any || !absl::IsAlreadyExists(agent.status()) || *rank + 1 >= flags.workers) return agent;
    ++*rank;
  }
}

std::vector<std::string> ServerNames(const Flags& flags, const rpc::Agent& agent) {
  if (flags.local) return {agent.name()};
  std::vector<std::string> names;
  for (int i = 0; i < flags.servers; ++i) names.push_back(absl::StrCat("ps", i));
  return names;
}

std::string SplitText(const launch::StepSplit& split) {
  const double total = std::max(1e-9, absl::ToDoubleSeconds(split.total()));
  const auto share = [total](absl::Duration part) {
    return absl::StrFormat("%.0f%%", 100 * absl::ToDoubleSeconds(part) / total);
  };
  return absl::StrCat("data ", share(split.data), ", pull ", share(split.pull), ", compute ",
                      share(split.compute), ", push ", share(split.push), ", wait ",
                      share(split.wait));
}

void PrintResult(const JobContext& job, const std::string& name) {
  const launch::Progress& progress = job.progress();
  std::cout << absl::StrFormat("%s: %d rows in %.2f s, %.0f rows/s", name, progress.rows,
                               absl::ToDoubleSeconds(job.trained_for()), progress.rows_per_second);
  if (progress.loss) std::cout << absl::StrFormat(", loss %.4f", *progress.loss);
  if (progress.quality) {
    std::cout << absl::StrFormat(", %s %.4f", progress.quality->name, progress.quality->value);
  }
  std::cout << "; " << SplitText(progress.split) << std::endl;
}

// A signal ends the batches; if the step under way doesn't end, its calls.
class Stopper {
 public:
  Stopper(TerminationSignals& signals, rpc::Agent& agent, JobContext& job)
      : thread_([this, received = signals.received(), &agent, &job] {
          const std::vector<Future<void>> either = {received.ThenInline([](const auto&) {}),
                                                    done_.future()};
          const auto first = WhenAny(either).Wait(absl::InfiniteFuture());
          if (!first.ok() || *first == 1) return;
          job.RequestStop(absl::CancelledError("interrupted by a signal"));
          if (done_.future().Wait(kStepGrace).ok()) return;
          agent.Leave(kLeaveTimeout).IgnoreError();
        }) {}
  ~Stopper() {
    done_.Set(absl::OkStatus());
    thread_.join();
  }

 private:
  Promise<void> done_;
  std::thread thread_;
};

absl::Status Train(const std::string& program, Flags& flags, TerminationSignals& signals) {
  GW_ASSIGN_OR_RETURN(const JobFunction function, JobRegistry::Find(flags.job));
  GW_ASSIGN_OR_RETURN(launch::ProgressWriter writer,
                      launch::ProgressWriter::FromEnvironment(ProcessEnvironment()));
  at::set_num_threads(flags.threads);
  if (flags.local) flags.servers = flags.workers = 1;
  std::unique_ptr<server::ParameterServer> local;
  flags.agent.functions = rpc::Registry::FromStatic();
  if (flags.local) {
    flags.agent.rendezvous.clear();
    GW_ASSIGN_OR_RETURN(local, server::ParameterServer::Create({.owner_count = 1}));
    local->Bind(flags.agent.functions);
  }
  const auto gathering = std::make_shared<Gathering>(flags.workers);
  gathering->Bind(flags.agent.functions);
  int rank = 0;
  auto starting = std::make_unique<ExitOnTermination>(signals, program);
  GW_ASSIGN_OR_RETURN(std::unique_ptr<rpc::Agent> agent, StartAgent(flags, &rank));
  GW_ASSIGN_OR_RETURN(
      std::shared_ptr<Servers> servers,
      Servers::Connect(agent.get(), ServerNames(flags, *agent), flags.agent.join_timeout));
  starting.reset();
  Client client(std::move(servers), flags.settings.seed);
  JobContext job(&client, flags.settings, rank, flags.workers, std::move(writer));
  GW_RETURN_IF_ERROR(job.OpenEvents(agent->name()));
  job.wait_for_others = [&] { return gathering->Meet(*agent, rank); };
  absl::Status outcome;
  {
    const Stopper stopper(signals, *agent, job);
    outcome = rpc::TorchToStatus(flags.job, [&] { return function(job); });
  }
  const absl::Status stopped = job.status();
  if (absl::IsCancelled(stopped)) outcome = stopped;
  job.Finish(outcome);
  if (outcome.ok()) PrintResult(job, agent->name());
  if (absl::Status left = agent->Leave(kLeaveTimeout); !left.ok()) {
    GW_LOG(WARNING) << "not all has ended" << Kv("why", left.message());
  }
  return outcome;
}

}  // namespace

int Main(const std::string& program, const std::vector<std::string>& arguments) {
  TerminationSignals signals;
  Flags flags;
  flags.agent.listen = ":0";
  if (const auto deps = ProcessEnvironment()("GW_DEPS_DIR")) {
    flags.settings.data_dir = JoinPath(*deps, "data");
  }
  std::string help;
  const absl::StatusOr<ParsedArguments> parsed = ParseFlags(arguments, flags, program, &help);
  if (parsed.ok() && parsed->help) {
    std::cout << help;
    return 0;
  }
  const absl::Status status = parsed.ok() ? Train(program, flags, signals) : parsed.status();
  if (status.ok()) return 0;
  std::cerr << program << ": " << status.message() << std::endl;
  return 1;
}

}  // namespace gradwire::worker
