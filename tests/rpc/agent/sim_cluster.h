// Agents on the simulated network, for tests: processes that start, call, pause, die and come back.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/agent/node.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/sim.h"
#include "rpc/transport/sim/sim_network.h"

namespace gradwire::rpc::testing {

// A function that gets its argument as text and answers with text.
inline BoundFunction TextFunction(
    std::string name, std::function<absl::StatusOr<std::string>(CallInfo&, std::string)> fn,
    Run run = Run::kExecutor) {
  BoundFunction bound;
  bound.name = std::move(name);
  bound.declaration = "string(string)";
  bound.place = "test";
  bound.run = run;
  bound.handler = [fn](std::shared_ptr<CallInfo> info, ReceivedPayload arguments, ReplyFn reply) {
    absl::StatusOr<std::string> result = fn(*info, std::string(AsText(arguments.head.bytes())));
    if (!result.ok()) return reply(result.status());
    Payload payload;
    payload.head = Buffer::FromString(*std::move(result));
    reply(std::move(payload));
  };
  return bound;
}

struct SimAgent {
  SimProcess* process = nullptr;
  std::unique_ptr<BufferPool> pool;
  std::unique_ptr<Node> node;
};

class SimCluster {
 public:
  explicit SimCluster(uint64_t seed) : network_(&loop_, seed) {
    limits_.join_timeout = absl::ZeroDuration();
    limits_.resend_timeout = absl::Milliseconds(20);
  }
  ~SimCluster() {
    for (auto& [name, agent] : agents_) agent.node->Close(absl::CancelledError("test over"));
    loop_.RunFor(absl::Seconds(5));
    agents_.clear();
  }

  // Starts (or restarts) an agent; it knows the addresses of all others.
  SimAgent& Start(const std::string& name, std::vector<BoundFunction> functions,
                  std::string token = "") {
    Stop(name);
    SimAgent& agent = agents_[name];
    agent.process = network_.AddProcess(name);
    agent.pool = std::make_unique<BufferPool>(*agent.process->clock());
    NodeOptions options;
    options.name = name;
    options.incarnation = Incarnation{++incarnation_};
    options.token = Secret(std::move(token));
    options.limits = limits_;
    options.functions = *FunctionTable::Build(std::move(functions));
    options.resolve = [](const std::string& peer) {
      return Future<std::string>(absl::StatusOr<std::string>("sim:" + peer));
    };
    options.transport = agent.process->transport();
    options.clock = agent.process->clock();
    options.rng = agent.process->rng();
    options.executor = agent.process->executor();
    options.pool = agent.pool.get();
    agent.node = *Node::Create(std::move(options));
    listen_status_ = agent.node->Listen(agent.process->address()).status();
    return agent;
  }

  // The process dies; nothing of it runs any more.
  void Kill(const std::string& name, bool silent = false) {
    network_.Kill(agents_[name].process, silent);
    agents_.erase(name);
  }

  SimAgent& operator[](const std::string& name) { return agents_.at(name); }
  SimLoop& loop() { return loop_; }
  SimNetwork& network() { return network_; }
  AgentLimits& limits() { return limits_; }
  std::map<std::string, SimAgent>& agents() { return agents_; }

  // Starts a text call and runs the world until it has ended.
  absl::StatusOr<std::string> Call(const std::string& from, const std::string& to,
                                   const std::string& function, const std::string& argument,
                                   CallOptions options = {}) {
    std::optional<absl::StatusOr<std::string>> result;
    Node& node = *agents_.at(from).node;
    Payload payload;
    payload.head = Buffer::FromString(argument);
    node.StartCall(to, node.Intern(function, "string(string)"), std::move(payload), options,
                   [&result](absl::StatusOr<ReceivedPayload> outcome) {
                     if (outcome.ok()) {
                       result = std::string(AsText(outcome->head.bytes()));
                     } else {
                       result = outcome.status();
                     }
                   });
    loop_.RunUntil([&] { return result.has_value(); }, loop_.Now() + absl::Hours(1));
    if (!result.has_value()) return absl::InternalError("the call did not end in an hour");
    return *result;
  }

 private:
  void Stop(const std::string& name) {
    const auto found = agents_.find(name);
    if (found != agents_.end()) Kill(name);
  }

  SimLoop loop_;
  SimNetwork network_;
  AgentLimits limits_;
  uint64_t incarnation_ = 0;
  absl::Status listen_status_;
  std::map<std::string, SimAgent> agents_;
};

}  // namespace gradwire::rpc::testing
