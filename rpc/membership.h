// One agent's place in its job: joins through the rendezvous that its options name, tells the node
// where the others are, finds those who come or move later, and leaves.
//
// Semantics:     rpc/cluster/README.md; every kind of rendezvous is a RendezvousStore here.
// Ownership:     shares the store. Destroy it before the node's executor and after the node.
// Thread-safety: all methods thread-safe; mu_ is a leaf. Join, Find and Leave block: not on polling
//                threads.
// Waiting:       Join until join_timeout; everything else a few seconds at most. Sessions never
//                depend on the rendezvous: what is known already is used when it doesn't answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/agent/node.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/base/rng.h"
#include "rpc/cluster/rendezvous.h"
#include "rpc/cluster/rendezvous_config.h"

namespace gradwire::rpc {

// What AgentOptions::rendezvous and ::peers say together. INVALID_ARGUMENT: both are given, or text
// that is none of the forms. Without either: a list without members.
absl::StatusOr<RendezvousConfig> ReadRendezvous(absl::string_view rendezvous,
                                                absl::string_view peers);

class JobMembership : public std::enable_shared_from_this<JobMembership> {
 public:
  struct Options {
    std::string name;
    int world_size = 0;
    int rank = kNoRank;
    absl::Duration join_timeout;
    // How long a look-up of somebody unknown waits for them to come.
    absl::Duration find_timeout;
  };

  // `clock` outlives this.
  JobMembership(Options options, RendezvousConfig config, std::shared_ptr<RendezvousStore> store,
                Clock* clock, Rng& rng);

  // Starts to join as somebody who listens at `address` ("": nowhere). Once.
  Future<Membership> StartJoin(const std::string& address);
  // Takes over what StartJoin's future gave: the node gets its incarnation, unless it has one, and
  // its peers. With a list and a world size it waits until everybody on the list was reached:
  // DEADLINE_EXCEEDED, with who is missing, when join_timeout is over since StartJoin.
  absl::Status Finish(const Membership& joined, Node& node);

  // Looks `name`, or whoever has `rank`, up in the rendezvous and tells the node where it listens.
  // Waits find_timeout, or `timeout`, for it to come. NOT_FOUND, with those who are there.
  absl::Status Find(const std::string& name, Node& node);
  absl::StatusOr<std::string> FindRank(int rank, absl::Duration timeout, Node& node);
  // Who has `rank` as far as is known here; "": nobody.
  std::string NameOfRank(int rank) const;

  // For NodeOptions::resolve: where `name` listens now. Doesn't block; only if asks().
  Future<std::string> Resolve(const std::string& name);

  // False: a static list, which says nothing new when it is asked again.
  bool asks() const { return config_.kind != RendezvousKind::kStatic; }

  // Frees name and rank. OK if there is nothing to leave.
  absl::Status Leave(absl::Duration timeout);

  // As far as known: itself first-hand, the others as of the join or their last look-up.
  absl::Duration find_timeout() const { return options_.find_timeout; }
  Member self() const;
  int world_size() const;
  std::vector<Member> members() const;  // those with a rank, in its order

 private:
  absl::Status ReachListed(Node& node, absl::Time deadline);
  void Learn(const Member& member) GW_EXCLUDES(mu_);

  const Options options_;
  const RendezvousConfig config_;
  Clock* const clock_;
  const uint64_t instance_;
  const std::shared_ptr<RendezvousStore> store_;

  mutable Mutex mu_;
  absl::Time join_deadline_ GW_GUARDED_BY(mu_);
  Member self_ GW_GUARDED_BY(mu_);
  bool joined_ GW_GUARDED_BY(mu_) = false;
  int world_size_ GW_GUARDED_BY(mu_) = 0;
  absl::btree_map<int, Member> by_rank_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
