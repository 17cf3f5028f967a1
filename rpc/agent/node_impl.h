// The shared state behind Node: tables of peers and sessions, and what the links ask of it.
//
// Locks: mu_ guards the tables. A session's lock may be taken under it (state()), never the other
// way round; no transport and no callback is called under it.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "rpc/agent/node.h"

namespace gradwire::rpc {

class ControlLink;
class BulkLink;
class SelfCall;

class NodeImpl final : public SessionObserver, public std::enable_shared_from_this<NodeImpl> {
 public:
  explicit NodeImpl(NodeOptions options);

  // ---- the Node's methods ----
  absl::StatusOr<std::string> Listen(const std::string& address);
  absl::Status SetIncarnation(Incarnation incarnation);
  absl::Status AddPeer(const std::string& name, const std::string& address, bool any_name,
                       Incarnation incarnation);
  const FunctionId* Intern(absl::string_view name, absl::string_view declaration);
  CallHandle StartCall(const std::string& peer, const FunctionId* function, Payload arguments,
                       const CallOptions& options, ReplyCallback done);
  Future<void> Connect(const std::string& peer);
  void Disconnect(const std::string& peer, const absl::Status& why);
  void Close(const absl::Status& why);
  absl::Status Join(absl::Duration timeout);
  bool drained() const;
  std::vector<PeerState> Peers() const;
  // Drops the listeners; waits for their connections' end where the transport does.
  void DropListeners();

  // ---- for the links ----
  // Whether a hello may be answered with yes; `seen` for a resume. (node_admit.cc)
  absl::Status AdmitHello(const Hello& hello, uint64_t* seen);
  struct Committed {
    std::shared_ptr<Session> session;
    uint64_t link = 0;
  };
  // The dialler proved itself: opens, adopts or resumes. Decides again, since time has passed.
  absl::StatusOr<Committed> CommitHello(const Hello& hello, const HelloReply& reply,
                                        std::shared_ptr<Connection> connection);
  // Ours was accepted. 0: another connection was faster.
  uint64_t DialAccepted(const std::shared_ptr<Session>& session, const Hello& hello,
                        const HelloReply& reply, std::shared_ptr<Connection> connection);
  // Ours ended before a session was carried; `tried` is what it would have opened or resumed.
  // `refused_by`: the incarnation that refused, if one did.
  void DialFailed(const std::shared_ptr<Session>& session, SessionId tried, const absl::Status& why,
                  std::optional<Incarnation> refused_by);
  std::shared_ptr<Session> FindSession(SessionId id) const;
  void BulkDialFailed(const std::shared_ptr<Session>& session);
  // Counts connections; the Node is drained when none is left. False: too many pending hellos, or
  // closed.
  bool LinkOpened(bool pending_hello);
  void HelloEnded();
  void LinkClosed();
  void SelfCallEnded(uint64_t number);

  // ---- SessionObserver ----
  void OnDetached(const std::shared_ptr<Session>& session, const absl::Status& why) override;
  void OnBulkLost(const std::shared_ptr<Session>& session) override;
  void OnBuried(const std::shared_ptr<Session>& session, const absl::Status& why) override;

  // The incarnation in it is known to whoever saw joined().
  const SelfIdentity& self() const { return self_; }
  bool joined() const { return joined_.load(std::memory_order_acquire); }
  const AgentLimits& limits() const { return env_->limits; }
  Clock& clock() const { return *options_.clock; }
  Rng& rng() const { return *options_.rng; }
  SessionEnv& env() const { return *env_; }

 private:
  struct PeerEntry {
    std::string address;
    bool any_name = false;  // whoever answers at `address`
    Incarnation last_incarnation;
    SessionId last_buried;
    std::shared_ptr<Session> session;
    // Dialling of `session`.
    bool dialling = false;  // an attempt is under way
    absl::Time dial_started;
    absl::Duration backoff;
    int attempts = 0;
    absl::Status last_failure;
    bool bulk_dialling = false;
    std::vector<Promise<void>> connecting;
  };

  std::shared_ptr<Session> EnsureSessionLocked(const std::string& peer, PeerEntry& entry,
                                               bool* dial) GW_REQUIRES(mu_);
  void StartDial(const std::shared_ptr<Session>& session) GW_EXCLUDES(mu_);
  void DialAt(const std::shared_ptr<Session>& session, const std::string& address) GW_EXCLUDES(mu_);
  void DialBulk(const std::shared_ptr<Session>& session) GW_EXCLUDES(mu_);
  void OnAttached(const std::shared_ptr<Session>& session) GW_EXCLUDES(mu_);
  CallHandle StartSelfCall(const FunctionId* function, Payload arguments,
                           const CallOptions& options, ReplyCallback done);
  bool DrainedLocked() const GW_REQUIRES(mu_);
  std::shared_ptr<ConnectionHandler> Accept(std::shared_ptr<Connection> connection, Lane lane);

  // What a hello meets; the same rules for AdmitHello and CommitHello.
  struct Verdict {
    absl::Status refusal;
    std::shared_ptr<Session> resume;  // this one goes on
    std::shared_ptr<Session> adopt;   // ours that waits for a connection takes it
    std::shared_ptr<Session> bury;    // given up by the dialler, or of an older incarnation
    absl::Status bury_why;
  };
  Verdict JudgeLocked(const Hello& hello) GW_REQUIRES(mu_);

  const NodeOptions options_;
  SelfIdentity self_;  // written before joined_ is set, read after it was seen
  const std::shared_ptr<SessionEnv> env_;

  std::atomic<bool> joined_;  // publishes self_'s incarnation, which never changes afterwards
  mutable Mutex mu_;
  CondVar drained_cv_;
  bool closed_ GW_GUARDED_BY(mu_) = false;
  absl::Status closed_why_ GW_GUARDED_BY(mu_);
  size_t link_count_ GW_GUARDED_BY(mu_) = 0;
  size_t pending_hello_count_ GW_GUARDED_BY(mu_) = 0;
  size_t session_count_ GW_GUARDED_BY(mu_) = 0;
  uint64_t last_self_call_ GW_GUARDED_BY(mu_) = 0;
  absl::btree_map<uint64_t, std::shared_ptr<SelfCall>> self_calls_ GW_GUARDED_BY(mu_);
  absl::btree_map<std::string, PeerEntry> peers_ GW_GUARDED_BY(mu_);
  absl::btree_map<uint64_t, std::weak_ptr<Session>> sessions_ GW_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Listener>> listeners_ GW_GUARDED_BY(mu_);
  std::deque<FunctionId> function_ids_ GW_GUARDED_BY(mu_);  // stable addresses
  absl::flat_hash_map<std::string, const FunctionId*> function_index_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
