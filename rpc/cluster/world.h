// The members of a job: who lives, with which rank and incarnation; who is missing.
//
// The rules of all stores in one place: no time, no input or output, no waiting. EmbeddedStore
// keeps one in memory, FileStore one in a file (world_text.h). Thread-safety: a value; none of its
// own.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

class World {
 public:
  struct Entry {
    Member member;
    uint64_t instance = 0;
    bool live = true;
    bool chose_rank = false;  // the process said its rank: then missing ones are named by rank

    friend bool operator==(const Entry&, const Entry&) = default;
  };

  World() = default;
  // From what a file says; INVALID_ARGUMENT: parts that contradict each other.
  static absl::StatusOr<World> FromParts(uint64_t last_incarnation, int world_size,
                                         std::vector<Entry> entries);

  // Lets a process in, or says why not (RendezvousStore::Join, but for the waiting). A new life
  // gets an incarnation that is not below `floor` and above all that this world ever saw. Repeated
  // with the same instance: the same member.
  absl::StatusOr<Member> Admit(const JoinRequest& request, Incarnation floor);

  // Frees name and rank.
  absl::Status Remove(const std::string& name, Incarnation incarnation);
  // Its name may be taken, its rank is kept for that name as long as there is room. False: that
  // process isn't a living member.
  bool MarkDead(const std::string& name, uint64_t instance);

  // Null: not there, or dead.
  const Member* Find(const std::string& name) const;
  const Member* FindRank(int rank) const;

  // As many live as the world has members.
  bool complete() const;
  int world_size() const { return world_size_; }
  uint64_t last_incarnation() const { return last_incarnation_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }

  Membership View(const Member& self) const;
  // "ps0 (10.0.0.5:7000), worker1": who lives. Long lists are cut.
  std::string Present() const;
  // "2 of 4 are missing: worker0, worker2"; `expected`: the names, if known.
  std::string Missing(const std::vector<std::string>& expected) const;

  friend bool operator==(const World&, const World&) = default;

 private:
  absl::StatusOr<int> ChooseRank(const JoinRequest& request, const Entry* last_life) const;
  const Entry* HolderOf(int rank) const;
  int live_count() const;

  uint64_t last_incarnation_ = 0;
  int world_size_ = 0;  // 0: nobody has said it
  std::map<std::string, Entry> entries_;
};

// What a Join, and a look-up, say when their time is over.
absl::Status Incomplete(const JoinRequest& request, absl::Duration waited, const World& world);
absl::Status NotThere(const std::string& name, int rank, absl::Duration waited,
                      const World& world);  // an empty name: looked for by rank

}  // namespace gradwire::rpc
