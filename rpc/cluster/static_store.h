// The rendezvous that is only a list: "ps0=10.0.0.5:7000,worker0=10.0.0.6:7000", the same for all.
//
// Who is in the list has its place as its rank; others may join as callers without rank. Nobody
// waits, since nobody knows who lives: a Join is ready at once, a look-up finds the list or
// nothing. Incarnations:  wall-clock nanoseconds, higher with each Join. Those of others aren't
// known (0). Thread-safety: all methods thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/clock.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

// Parses "name=host:port,name=host:port"; ranks by place. INVALID_ARGUMENT quotes the entry.
absl::StatusOr<std::vector<Member>> ParseMembers(absl::string_view list);

class StaticStore final : public RendezvousStore {
 public:
  // `members` as ParseMembers gives them. `clock` outlives the store.
  StaticStore(Clock* clock, std::vector<Member> members);

  Future<Membership> Join(JoinRequest request) override;
  Future<Member> Resolve(const std::string& name, absl::Duration timeout) override;
  Future<Member> ResolveRank(int rank, absl::Duration timeout) override;
  Future<void> Leave(const std::string& name, Incarnation incarnation) override;

 private:
  const Member* Find(absl::string_view name) const;
  std::string Listed() const;

  Clock* const clock_;
  const std::vector<Member> members_;
  std::atomic<uint64_t> last_incarnation_{0};  // a number, raised; publishes nothing else
};

}  // namespace gradwire::rpc
