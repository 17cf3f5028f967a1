// Servers: the sessions of one worker to the parameter servers of its job, and the calls on them.
//
// Retries:       a call that UNAVAILABLE ended may have run; pulls are repeatable and pushes carry
//                numbers, so that both are sent again while kRetryFor lasts. A server that was
//                started again has lost its tables: ABORTED, not repeated.
// Thread-safety: all methods thread-safe.
// Ownership:     the agent must outlive it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/agent.h"
#include "rpc/base/clock.h"
#include "rpc/base/status.h"
#include "server/store/virtual_shard.h"

namespace gradwire::worker {

// Times of waiting, and what the versions say. Of the blocking calls of one client.
struct ClientTimes {
  absl::Duration pull = {};
  absl::Duration push = {};
  uint64_t pushes = 0;
  // Sum over pushes of how many of others were applied since the pull before.
  uint64_t staleness = 0;
};

// A call under way that is repeated where that is safe. Wait once.
template <class R>
class PendingCall {
 public:
  PendingCall() = default;
  PendingCall(std::function<rpc::Future<R>()> start, absl::Time until)
      : start_(std::move(start)), future_(start_()), until_(until) {}

  bool valid() const { return future_.valid(); }

  // The outcome; every call has a deadline, so that this ends.
  Outcome<R> Wait() {
    while (true) {
      Outcome<R> outcome = std::move(future_).Wait(absl::Hours(25));
      const bool again = absl::IsUnavailable(status_internal::ToStatus(outcome));
      if (!again || Clock::Real().Now() >= until_) return outcome;
      future_ = start_();
    }
  }

 private:
  std::function<rpc::Future<R>()> start_;
  rpc::Future<R> future_;
  absl::Time until_;
};

class Servers {
 public:
  // 2 s: a connection that is cut comes back in milliseconds; who is gone for longer is reported by
  // the session itself.
  static constexpr absl::Duration kRetryFor = absl::Seconds(2);

  // Connects to all; `names` in the job's order, the same for all workers. UNAVAILABLE,
  // DEADLINE_EXCEEDED: naming those that are missing.
  static absl::StatusOr<std::shared_ptr<Servers>> Connect(rpc::Agent* agent,
                                                          const std::vector<std::string>& names,
                                                          absl::Duration timeout);

  size_t size() const { return peers_.size(); }
  const std::string& name(size_t server) const { return peers_[server].name(); }
  const server::ShardMap& map() const { return map_; }

  template <class R, class... Args>
  PendingCall<R> Start(size_t server, rpc::BoundCall<R(Args...)> call) const {
    return PendingCall<R>(
        [peer = peers_[server], call = std::move(call)] { return peer.Async(call); },
        Clock::Real().Now() + kRetryFor);
  }

 private:
  Servers(std::vector<rpc::Peer> peers, server::ShardMap map)
      : peers_(std::move(peers)), map_(std::move(map)) {}

  const std::vector<rpc::Peer> peers_;
  const server::ShardMap map_;
};

}  // namespace gradwire::worker
