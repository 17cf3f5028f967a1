#include "rpc/agent_flags.h"

#include "absl/time/time.h"

namespace gradwire::rpc {

void AddAgentOptions(OptionTable& table, AgentOptions* options) {
  table.Group("Job");
  table.Add({.name = "name",
             .help = "Name of this agent, unique in the job: 1 to 128 characters of "
                     "[A-Za-z0-9_.-/~:]."},
            &options->name);
  table.Add(
      {.name = "job-id", .help = "Name of the job; agents of different jobs refuse each other."},
      &options->job);
  table.Add({.name = "rendezvous",
             .unit = "tcp://host:port|file:///folder|static:name=host:port,...",
             .help = "How the agents of the job find each other."},
            &options->rendezvous);
  table.Add({.name = "serve-rendezvous",
             .help = "Serves the tcp:// rendezvous. The agent that listens at its address does "
                     "anyway."},
            &options->serve_rendezvous);
  table.Add({.name = "peers",
             .unit = "name=host:port,...",
             .help = "Where others listen. Short for --rendezvous=static:..."},
            &options->peers);
  table.Add({.name = "world-size",
             .help = "Agents to wait for at the start; they get ranks from 0. 0: wait for nobody."},
            &options->world_size, 0, 4096);
  table.Add({.name = "rank", .help = "Rank of this agent. -1: any."}, &options->rank, -1, 4095);
  table.Add({.name = "join-timeout", .help = "How long the start waits for the world."},
            &options->join_timeout, absl::Milliseconds(1), absl::Hours(24));

  table.Group("Network");
  table.Add({.name = "listen",
             .unit = "host:port",
             .help = "Where to listen: an address, [IPv6], a name, an interface; port 0 is any "
                     "free one. Empty: nowhere."},
            &options->listen);
  table.Add({.name = "interface", .help = "Network interface to listen on, as eth0."},
            &options->interface);
  table.Add({.name = "advertise",
             .unit = "host[:port]",
             .help = "What others are told to dial. Default: where this agent listens."},
            &options->advertise);
  table.Add(
      {.name = "token-file",
       .unit = "path",
       .help = "File with the job token, readable by its owner alone. Needed to listen beyond "
               "loopback."},
      &options->token_file);
  table.Add({.name = "insecure-transport",
             .help = "Allows to listen beyond loopback although the wire is not encrypted."},
            &options->insecure_transport);

  table.Group("Limits");
  AgentLimits& limits = options->limits;
  table.Add(
      {.name = "executor-slots", .help = "Handlers that run at once. 0: one a core, 2 at least."},
      &options->executor_slot_count, size_t{0}, size_t{4096});
  table.Add({.name = "call-timeout", .help = "Deadline of calls that name none."},
            &limits.default_timeout, absl::Milliseconds(1), absl::Hours(24));
  table.Add({.name = "handshake-timeout", .help = "From a connection to the end of its hello."},
            &limits.handshake_timeout, absl::Milliseconds(1), absl::Hours(1));
  table.Add({.name = "connect-timeout", .help = "How long an unreached peer is tried."},
            &limits.connect_timeout, absl::Milliseconds(1), absl::Hours(1));
  table.Add({.name = "liveness-timeout",
             .help = "A connection without any sign of life for this long is cut."},
            &limits.liveness_timeout, absl::Milliseconds(10), absl::Hours(1));
  table.Add({.name = "resume-window",
             .help = "How long a session that lost its connection may be resumed."},
            &limits.resume_window, absl::Milliseconds(10), absl::Hours(1));
  table.Add(
      {.name = "spin",
       .help = "How long who waits for the wire polls before it sleeps, where cores are free."},
      &limits.spin, absl::ZeroDuration(), absl::Milliseconds(10));
}

}  // namespace gradwire::rpc
