// Agent: a named node that calls functions of others and serves its own. The typed face of
// rpc/agent.
//
//   GW_ASSIGN_OR_RETURN(auto agent, rpc::Agent::Start({.name = "trainer0", .peers =
//   "server0=127.0.0.1:7000"})); GW_ASSIGN_OR_RETURN(rpc::Peer server, agent->Connect("server0"));
//   absl::StatusOr<int64_t> sum = server.Call(kAdd(1, 2), {.timeout = absl::Seconds(5)});
//   rpc::Future<int64_t> later = server.Async(kAdd(3, 4));
//   GW_RETURN_IF_ERROR(agent->Leave(absl::Seconds(10)));
//
// A process may hold several agents; each owns its sockets, threads and memory.
// Thread-safety: all methods of Agent and Peer are thread-safe. Peers are copyable and may outlive
// the agent: every
//                use is then FAILED_PRECONDITION.
// Errors:        every failed call names the peer, the function, what it was waiting for and for
//                how long.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/agent/node.h"
#include "rpc/base/future.h"
#include "rpc/cluster/rendezvous.h"
#include "rpc/function.h"
#include "rpc/registry.h"

namespace gradwire::rpc {

template <class T>
using Future = ::gradwire::Future<T>;
template <class T>
using Promise = ::gradwire::Promise<T>;

struct AgentOptions {
  // Required. Unique in the job; 1 to 128 characters of [A-Za-z0-9_.-/~:].
  std::string name = {};
  // Default: "default". Agents of different jobs refuse each other.
  std::string job = "default";
  // Default: ":0": any free port of the loopback interface, or of `interface`. "host:port",
  // "[::1]:port", "eth0:port", ":port". "": listens nowhere, only calls.
  std::string listen = ":0";
  // Default: none. Listens on this interface's address; `listen` then says the port alone.
  std::string interface = {};
  // Default: where it listens. "host:port" or "host": what others are told to dial, where that
  // differs (a name, an address outside a container), or where `listen` means every interface.
  std::string advertise = {};
  // Default: none. How the agents of the job find each other (rpc/cluster/README.md):
  // "tcp://host:port", served by the agent that listens there; "file:///folder", which all reach;
  // "static:name=host:port,…", a list that all have.
  std::string rendezvous = {};
  // Default: false. Serves the tcp:// rendezvous, which is done anyway where `listen` or
  // `advertise` is its address. With an empty `rendezvous` it serves at the address where it
  // listens.
  bool serve_rendezvous = false;
  // Default: 0: open. Agents come and go, have no ranks, and Start waits for nobody. N: Start waits
  // until N agents are there, which have ranks 0 … N-1. All must say the same.
  int world_size = 0;
  // Default: -1: any. On a list: the place in it.
  int rank = -1;
  // Default: 30 s. How long Start waits for the rendezvous and for the world.
  absl::Duration join_timeout = absl::Seconds(30);
  // Default: none. Short for rendezvous "static:…". Peers that called here need no entry; more come
  // by Agent::AddPeer.
  std::string peers = {};
  // Default: none. File with the job token, readable by its owner alone; both sides need the same.
  std::string token_file = {};
  // Default: false. Allows to listen beyond loopback although the wire is not encrypted.
  bool insecure_transport = false;
  // Default: empty. What this agent serves.
  Registry functions = {};
  // Default: number of cores, at least 2. Handlers that run at once on the executor.
  size_t executor_slot_count = 0;
  // Default: none. Runs first on every thread of the executor.
  void (*on_thread_start)() = nullptr;
  AgentLimits limits = {};
};

class AgentCore;

// Another agent, as this one calls it. Copyable.
class Peer {
 public:
  Peer() = default;

  const std::string& name() const { return name_; }

  // Calls and waits. Not on a polling thread (FAILED_PRECONDITION). DEADLINE_EXCEEDED, CANCELLED,
  // UNAVAILABLE (may have run), ABORTED (the peer was restarted; may have run), or what the
  // function returned.
  template <class R, class... Args>
  Outcome<R> Call(const BoundCall<R(Args...)>& call, CallOptions options = {}) const;

  // Calls; the result arrives later. Future::Cancel() tells the callee; dropping the future
  // doesn't.
  template <class R, class... Args>
  Future<R> Async(const BoundCall<R(Args...)>& call, CallOptions options = {}) const;

 private:
  friend class Agent;
  Peer(std::weak_ptr<AgentCore> core, std::string name)
      : core_(std::move(core)), name_(std::move(name)) {}

  std::weak_ptr<AgentCore> core_;
  std::string name_;
};

class Agent {
 public:
  // Listens, joins its job and is ready to call. INVALID_ARGUMENT: an option; ALREADY_EXISTS: a
  // function bound twice, with both places, or a name or rank in use, with its holder's address;
  // UNAVAILABLE: the address is in use; FAILED_PRECONDITION: what listening there needs, or another
  // world size; DEADLINE_EXCEEDED: the world is not complete, with who is missing; NOT_FOUND: no
  // such interface.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(AgentOptions options);
  // Leaves, with up to 10 s for it; then waits for handlers that have not returned, without limit:
  // they run on threads and memory that the agent owns. Never on one of its own threads.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // A peer by name or rank, connected. One that is not known yet is looked up in the rendezvous,
  // for up to AgentLimits::connect_timeout. NOT_FOUND: unknown, with those that are known;
  // UNAVAILABLE: not reachable within AgentLimits::connect_timeout, with address and cause. The own
  // name gives a peer that runs functions here.
  absl::StatusOr<Peer> Connect(const std::string& name);
  absl::StatusOr<Peer> Connect(int rank);
  // The same without connecting: the first call does.
  Peer At(const std::string& name) const;

  // Says where `name` listens.
  absl::Status AddPeer(const std::string& name, const std::string& address);

  const std::string& name() const;
  Incarnation incarnation() const;
  // Where it listens, with the real port, as others dial it; "" if nowhere.
  const std::string& address() const;
  // -1: none (an open world, or not on the list).
  int rank() const;
  // 0: open.
  int world_size() const;
  // Those with a rank, in its order, as of the join or their last look-up.
  std::vector<Member> Members() const;
  std::vector<PeerState> Peers() const;
  const AgentStats& stats() const;

  // Says goodbye to all peers: calls both ways end with UNAVAILABLE "NAME left"; then waits until
  // everything has ended. DEADLINE_EXCEEDED: something has not.
  absl::Status Leave(absl::Duration timeout);

 private:
  explicit Agent(std::shared_ptr<AgentCore> core);
  std::shared_ptr<AgentCore> core_;
};

// ---- implementation of the templates ----

namespace agent_internal {

// Starts an encoded call. Null when the agent is gone: `done` has the error then.
CallHandle StartCall(const std::weak_ptr<AgentCore>& core, const std::string& peer,
                     absl::string_view function, const std::string& declaration, Payload arguments,
                     const CallOptions& options, ReplyCallback done);

}  // namespace agent_internal

template <class R, class... Args>
Future<R> Peer::Async(const BoundCall<R(Args...)>& call, CallOptions options) const {
  PayloadWriter out(options.copy ? Sharing::kCopy : Sharing::kBorrow, {}, call.name());
  if (absl::Status encoded = call.Encode(out); !encoded.ok()) return Future<R>(std::move(encoded));
  struct Pending {
    Promise<R> promise;
    BorrowGuard borrows;
  };
  auto pending = std::make_shared<Pending>();
  pending->borrows = out.TakeBorrows();
  Future<R> future = pending->promise.future();
  CallHandle handle = agent_internal::StartCall(
      core_, name_, call.name(), call.declaration(), out.TakePayload(), options,
      [pending, name = call.name()](absl::StatusOr<ReceivedPayload> outcome) {
        absl::Status status = outcome.status();
        if (status.ok() || absl::IsCancelled(status)) {
          if (absl::Status changed = pending->borrows.Check(); !changed.ok()) status = changed;
        }
        if (!status.ok()) {
          pending->promise.Set(std::move(status));
          return;
        }
        pending->promise.Set(DecodeResult<R>(name, *std::move(outcome)));
      });
  if (!future.ready()) {
    pending->promise.OnCancel([handle] { handle.Cancel(); });
    pending->promise.SetWaitDriver(handle.wait_driver());
  }
  return future;
}

template <class R, class... Args>
Outcome<R> Peer::Call(const BoundCall<R(Args...)>& call, CallOptions options) const {
  // The call has a deadline of its own, and every call ends; the wait's only bounds a bug of ours.
  return Async(call, options).Wait(absl::Hours(25));
}

}  // namespace gradwire::rpc
