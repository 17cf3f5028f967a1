#include "server/main.h"

#include <cstdio>
#include <iostream>

#include "rpc/agent.h"
#include "rpc/agent_flags.h"
#include "rpc/base/log.h"
#include "rpc/base/termination.h"
#include "server/server.h"

namespace gradwire::server {
namespace {

// Of the 5 s in which a process has to be gone after SIGTERM.
constexpr absl::Duration kLeaveTimeout = absl::Seconds(3);

struct Flags {
  rpc::AgentOptions agent;
  ParameterServerOptions server;
  ByteCount memory_limit;
  int servers = 1;
  int workers = 1;
};

void AddOptions(OptionTable& table, Flags& flags) {
  table.Group("Parameter server");
  table.Add({.name = "memory-limit",
             .help = "Bytes that all tables together may take; requests that would need more are "
                     "refused. 0: no limit."},
            &flags.memory_limit);
  table.Add({.name = "owners",
             .help = "Threads that own rows and blocks. 0: half of the cores, 1 at least."},
            &flags.server.owner_count, size_t{0}, size_t{256});
  table.AddChoice(
      {.name = "nonfinite",
       .help = "What happens to a gradient with a NaN or an infinity: the push fails, or NaN "
               "counts as 0 and infinities as the largest number, or the push changes nothing."},
      &flags.server.nonfinite,
      {{"refuse", NonFinite::kRefuse}, {"clip", NonFinite::kClip}, {"skip", NonFinite::kSkip}});
  table.Add({.name = "servers", .help = "Parameter servers of the job."}, &flags.servers, 1, 4096);
  table.Add({.name = "workers", .help = "Workers of the job."}, &flags.workers, 1, 4096);
  rpc::AddAgentOptions(table, &flags.agent);
}

int Fail(const std::string& program, const absl::Status& status) {
  std::cerr << program << ": " << status.message() << "\n";
  return 1;
}

}  // namespace

int Main(const std::string& program, const std::vector<std::string>& arguments) {
  TerminationSignals signals;
  Flags flags;
  flags.agent.name = "ps0";
  OptionTable table;
  AddOptions(table, flags);
  const absl::StatusOr<ParsedArguments> parsed =
      table.Parse(arguments, ProcessEnvironment(), FileSystem::Real());
  if (!parsed.ok()) return Fail(program, parsed.status());
  if (parsed->help) {
    std::cout << table.Help(program, "Serves tables of dense and sparse parameters to workers.");
    return 0;
  }
  if (!parsed->positional.empty()) {
    return Fail(program, absl::InvalidArgumentError("unknown argument " + parsed->positional[0] +
                                                    "; see " + program + " --help"));
  }
  flags.server.memory_limit_bytes = flags.memory_limit.value;
  auto server = ParameterServer::Create(flags.server);
  if (!server.ok()) return Fail(program, server.status());
  flags.agent.functions = rpc::Registry::FromStatic();
  (*server)->Bind(flags.agent.functions);
  auto starting = std::make_unique<ExitOnTermination>(signals, program);
  absl::StatusOr<std::unique_ptr<rpc::Agent>> agent = rpc::Agent::Start(flags.agent);
  starting.reset();
  if (!agent.ok()) return Fail(program, agent.status());
  std::cout << (*agent)->name() << " serves on " << (*agent)->address() << std::endl;
  const absl::StatusOr<int> signal = signals.received().Wait(absl::InfiniteFuture());
  GW_LOG(INFO) << "leaving" << Kv("signal", signal.ok() ? *signal : 0);
  const absl::Status left = (*agent)->Leave(kLeaveTimeout);
  if (!left.ok()) {
    GW_LOG(WARNING) << "not all has ended" << Kv("why", left.message());
  }
  agent->reset();
  return 0;
}

}  // namespace gradwire::server
