// Serves a rendezvous in memory to those who join at tcp://, by functions of the agent that has it.
//
// Ownership:     shared by the agent and its function table; knows neither.
// Thread-safety: all methods thread-safe. Handlers are short and run on the polling thread.
// The dead:      a process that joined keeps its session to this agent; when that is buried, the
//                process is reported dead to the store (unless it has left).
// Trust:         whoever has the job token may join; only who joined under a name may leave it.
// Limits:        EmbeddedStore's; one entry a session.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "rpc/agent/session.h"
#include "rpc/base/mutex.h"
#include "rpc/cluster/embedded_store.h"
#include "rpc/registry.h"
#include "rpc/rendezvous_wire.h"

namespace gradwire::rpc {

class RendezvousService : public std::enable_shared_from_this<RendezvousService> {
 public:
  // `clock` outlives this.
  RendezvousService(Clock* clock, EmbeddedStoreOptions options);

  // Adds gradwire.rendezvous.* to `functions`; the service lives as long as those.
  void Bind(Registry& functions);
  // For NodeOptions::on_session_end.
  void OnSessionEnd(const PeerIdentity& peer, SessionId session);

  // For the agent's own membership.
  EmbeddedStore& store() { return store_; }

  // Ends what waits with `why`, and refuses what comes.
  void Close(const absl::Status& why) { store_.Close(why); }
  // Waits until all who called have hung up, so that they got their answers. False: some have not.
  bool WaitForGoodbyes(absl::Duration timeout) GW_EXCLUDES(mu_);

 private:
  struct Life {
    std::string name;
    uint64_t instance = 0;
    SessionId session;  // the one that it joined by, last
  };
  using Caller = std::pair<std::string, uint64_t>;  // name and incarnation of the one who calls

  Future<WireJoined> Join(CallInfo& call, WireJoin wire) GW_EXCLUDES(mu_);
  Future<WireFound> Find(CallInfo& call, WireFind wire);
  Future<WireVerdict> Leave(CallInfo& call, const std::string& name, uint64_t incarnation)
      GW_EXCLUDES(mu_);

  EmbeddedStore store_;
  Clock* const clock_;
  Mutex mu_;
  CondVar hung_up_;
  absl::btree_map<Caller, Life> lives_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
