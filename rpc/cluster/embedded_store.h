// The rendezvous in memory: whoever serves it (an agent, the launcher) calls it from its handlers.
//
// Ownership:     shell over shared state; outlives nothing: futures that wait when it is destroyed
//                end with UNAVAILABLE.
// Thread-safety: all methods thread-safe.
// Incarnations:  (epoch, counter): the epoch is the wall clock's second of the start, the counter
//                begins with its nanosecond, so that a store that was started again hands out
//                higher ones. Members that register again raise them further.
// Limits:        kMaxMembers; max_waiting_count -> RESOURCE_EXHAUSTED; max_timeout cuts what
//                callers ask for.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

struct EmbeddedStoreOptions {
  // Default: 30 s. How long the first of an incomplete world waits before all give up. A caller's
  // own timeout may be shorter, for itself.
  absl::Duration join_timeout = absl::Seconds(30);
  // Default: 7 s. How long a newcomer waits for the holder of its name or rank to be reported dead:
  // longer than a lost session may resume, so that a restarted process gets its name; short, so
  // that a second process of that name is told soon.
  absl::Duration takeover_patience = absl::Seconds(7);
  // Default: 10 min. The longest anybody waits for anything.
  absl::Duration max_timeout = absl::Minutes(10);
  // Default: 16384 joins and look-ups that wait at once; bounds memory.
  size_t max_waiting_count = 16384;
  // Default: 0: from the clock. For tests.
  Incarnation first_incarnation = {};
};

class EmbeddedStore final : public RendezvousStore {
 public:
  // `clock` outlives the store.
  explicit EmbeddedStore(Clock* clock, EmbeddedStoreOptions options = {});
  ~EmbeddedStore() override;

  Future<Membership> Join(JoinRequest request) override;
  Future<Member> Resolve(const std::string& name, absl::Duration timeout) override;
  Future<Member> ResolveRank(int rank, absl::Duration timeout) override;
  Future<void> Leave(const std::string& name, Incarnation incarnation) override;

  // The process that joined as `name` with `instance` has ended: its name is free, its join (if it
  // still waits) ends. Reported by whoever holds the sessions to the members. Old news is harmless.
  void ReportDead(const std::string& name, uint64_t instance);

  // Those who live, with a rank or without.
  std::vector<Member> Members() const;

  // Ends everything that waits with `why`, and refuses what comes. Idempotent.
  void Close(const absl::Status& why);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gradwire::rpc
