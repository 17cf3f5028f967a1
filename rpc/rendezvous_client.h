// A rendezvous at tcp://, as an agent that joins there sees it.
//
// Calls through a node of its own, under a name of its own: the name that is asked for may belong
// to somebody else, whose sessions a second process of that name would end. Its session tells the
// server that this process lives.
//
// Join:          tries until its time is over, wherever it is refused only for now or its reply is
//                lost; the server may be started later. DEADLINE_EXCEEDED: the server was not
//                reached, with the cause. What the server's store says comes as it is.
// Server lost:   joins again with the incarnation that it has, until it is let in or this is
//                destroyed. Look-ups fail with UNAVAILABLE meanwhile, at once.
// Ownership:     the seams outlive it. Never destroy it on one of the node's own threads.
// Thread-safety: all methods thread-safe; mu_ is a leaf.
#pragma once

#include <memory>
#include <string>

#include "rpc/agent/node.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

struct RendezvousClientOptions {
  // Required. host:port of the agent that serves.
  std::string address;
  // Required. Who joins; part of the name to call by.
  std::string self;
  // job, token, limits and the seams; the rest is set here.
  NodeOptions node;
};

class RendezvousClient final : public RendezvousStore {
 public:
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Create(RendezvousClientOptions options);
  // What waits ends with UNAVAILABLE.
  ~RendezvousClient() override;

  Future<Membership> Join(JoinRequest request) override;
  Future<Member> Resolve(const std::string& name, absl::Duration timeout) override;
  Future<Member> ResolveRank(int rank, absl::Duration timeout) override;
  Future<void> Leave(const std::string& name, Incarnation incarnation) override;

 private:
  struct State;
  RendezvousClient(std::shared_ptr<State> state, std::unique_ptr<Node> node);

  const std::shared_ptr<State> state_;
  std::unique_ptr<Node> node_;
};

}  // namespace gradwire::rpc
