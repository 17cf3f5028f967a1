// Node: one agent at the level of bytes: its name, its functions, its sessions to peers.
//
// Role:          accepts and dials connections, runs the hello on them, decides dial races,
//                keeps one session a peer, resumes and buries sessions. rpc/agent.h puts types on
//                top.
// Ownership:     shell over shared state; connections and sessions hold what they need of it.
// Thread-safety: all methods thread-safe. Nothing is called under a lock.
// Life:          Close() refuses new work and ends all sessions with a goodbye; Join() waits for
//                the connections to end; the destructor does both. Never destroy it on one of its
//                own threads.
// Time, bytes, threads: all through NodeOptions; the simulation injects its twins.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "rpc/agent/handshake.h"
#include "rpc/agent/session.h"
#include "rpc/base/future.h"
#include "rpc/base/rng.h"
#include "rpc/base/secret.h"

namespace gradwire::rpc {

// Where a peer listens. Addresses come from the rendezvous or a static list.
using ResolveFn = std::function<Future<std::string>(const std::string& name)>;

struct NodeOptions {
  // Required. 1 to 128 characters of [A-Za-z0-9_.-/~:].
  std::string name;
  // Default: "default". Agents of different jobs refuse each other.
  std::string job = "default";
  // Default: 0: SetIncarnation says it later. From the rendezvous, or the wall clock's nanoseconds.
  Incarnation incarnation;
  // Default: none. The job token: both sides prove that they have it.
  Secret token;
  AgentLimits limits;
  std::shared_ptr<const FunctionTable> functions;
  // Default: none. Finds the address of a peer that AddPeer gave none for, or that did not answer
  // at the one it gave: it may have been started again somewhere else.
  ResolveFn resolve;
  // Default: none. Hears that a session is over; `peer` has incarnation 0 if it was never reached.
  // Its calls were cancelled before. On any thread; short.
  std::function<void(const PeerIdentity& peer, SessionId session, const absl::Status& why)>
      on_session_end;

  // The seams; all outlive the Node.
  Transport* transport = nullptr;
  Clock* clock = nullptr;
  Rng* rng = nullptr;
  Executor* executor = nullptr;
  BufferPool* pool = nullptr;
};

class NodeImpl;

// A call that was started. Copyable.
class CallHandle {
 public:
  CallHandle() = default;
  CallHandle(std::weak_ptr<CallOwner> owner, uint64_t seq) : owner_(std::move(owner)), seq_(seq) {}
  // Ends the call with CANCELLED unless it has ended, and tells the callee.
  void Cancel() const {
    if (auto owner = owner_.lock()) owner->CancelCall(seq_);
  }
  // For Promise::SetWaitDriver; null when the call is over with its session.
  std::shared_ptr<WaitDriverSource> wait_driver() const { return owner_.lock(); }

 private:
  std::weak_ptr<CallOwner> owner_;
  uint64_t seq_ = 0;
};

struct PeerState {
  std::string name;
  std::string address;  // "" = unknown here
  SessionState session_state = SessionState::kOpening;
  bool has_session = false;
  size_t calls_in_flight = 0;
  size_t handlers_in_flight = 0;
};

class Node {
 public:
  // INVALID_ARGUMENT: a bad name or a missing seam.
  static absl::StatusOr<std::unique_ptr<Node>> Create(NodeOptions options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Accepts peers on `address`. May be called several times. Returns the real address.
  absl::StatusOr<std::string> Listen(const std::string& address);

  // Says the incarnation that NodeOptions left open, once, since the rendezvous gives it to those
  // who listen already. Until then nobody is let in and nobody is called. FAILED_PRECONDITION: it
  // is known; INVALID_ARGUMENT: 0.
  absl::Status SetIncarnation(Incarnation incarnation);

  // Says where `name` listens; used by the next dial. An empty address is looked up by
  // NodeOptions::resolve. `any_name`: `name` is ours alone; whoever answers at `address` is meant.
  // `incarnation`: earlier lives of that name are over.
  absl::Status AddPeer(const std::string& name, const std::string& address, bool any_name = false,
                       Incarnation incarnation = {});

  // A stable name for (name, declaration); lives as long as the Node.
  const FunctionId* Intern(absl::string_view name, absl::string_view declaration);

  // Starts a call to `peer`; `done` gets the outcome, once. The session is opened if there is none.
  // A call to the own name runs here, without a session.
  CallHandle StartCall(const std::string& peer, const FunctionId* function, Payload arguments,
                       const CallOptions& options, ReplyCallback done);

  // Ready when a session to `peer` is up; UNAVAILABLE when it could not be reached within
  // connect_timeout.
  Future<void> Connect(const std::string& peer);

  // Ends the session with `peer`, with a goodbye.
  void Disconnect(const std::string& peer, const absl::Status& why);

  void Close(const absl::Status& why);
  // Waits until everything that was open has ended. DEADLINE_EXCEEDED. Not on a polling thread.
  absl::Status Join(absl::Duration timeout);
  // Like Join without waiting: whether all connections and sessions have ended.
  bool drained() const;

  const std::string& name() const;
  Incarnation incarnation() const;
  const AgentStats& stats() const;
  std::vector<PeerState> Peers() const;

 private:
  explicit Node(std::shared_ptr<NodeImpl> impl);
  std::shared_ptr<NodeImpl> impl_;
};

}  // namespace gradwire::rpc
