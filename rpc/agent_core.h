// What an agent owns: transport, threads, memory, its node, its place in the job.
//
// Ownership:     shared by the Agent alone; Peers hold it weakly.
// Thread-safety: Start once, by one thread; then all methods thread-safe.
#pragma once

#include <memory>
#include <string>

#include "rpc/agent.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/executor.h"
#include "rpc/membership.h"
#include "rpc/rendezvous_service.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

// The order of the members is the order in which they must outlive each other.
class AgentCore {
 public:
  explicit AgentCore(const AgentOptions& options);
  ~AgentCore();

  // Listens, joins, and makes the members of the world known to the node. Whatever it has begun
  // when it fails ends with this object.
  absl::Status Start(AgentOptions options);
  absl::Status Leave(absl::Duration timeout);

  const std::unique_ptr<Transport> transport;
  ThreadPool executor;
  BufferPool pool;
  std::shared_ptr<RendezvousService> service;  // null: this agent serves no rendezvous
  std::shared_ptr<JobMembership> membership;
  std::unique_ptr<Node> node;
  std::string address;

 private:
  absl::StatusOr<std::shared_ptr<RendezvousStore>> MakeStore(const RendezvousConfig& config,
                                                             const AgentOptions& options,
                                                             const NodeOptions& node_options);
  absl::Status Join(const AgentOptions& options, const std::string& told);
};

}  // namespace gradwire::rpc
