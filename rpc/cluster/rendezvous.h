// Rendezvous: how the processes of a job find each other, get their ranks and their incarnations.
//
// Semantics:     rpc/cluster/README.md.
// Stores:        StaticStore (a list), EmbeddedStore (served by an agent or the launcher),
//                FileStore (a shared folder). All behave the same where they can.
// Thread-safety: all methods thread-safe; futures complete on a timer, an executor, or the thread
//                of the call that completed them; no lock is held then.
// Waiting:       everything ends by its timeout. Cancelling a Join's future withdraws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/base/future.h"
#include "rpc/base/id.h"

namespace gradwire::rpc {

inline constexpr int kNoRank = -1;
// Members of a world, its dead and those without rank; bounds what a store remembers.
inline constexpr int kMaxMembers = 4096;

struct Member {
  std::string name;
  std::string address;      // where it listens; "": nowhere, it only calls
  Incarnation incarnation;  // 0: not known (static list)
  int rank = kNoRank;

  friend bool operator==(const Member&, const Member&) = default;
};

struct Membership {
  Member self;
  int world_size = 0;           // 0: of no fixed size
  std::vector<Member> members;  // those with a rank, in its order, self among them
};

struct JoinRequest {
  // Required. Unique among the living.
  std::string name = {};
  // Default: "": listens nowhere. What others dial.
  std::string address = {};
  // Required. Chosen at random by the process, new for each of its lives, so that a repeated Join
  // is told from a second process of the same name.
  uint64_t instance = 0;
  // Default: 0: gets no rank, counts for no world and doesn't wait. Else: waits until that many are
  // there.
  int world_size = 0;
  // Default: none: the place in `expected`, the rank of the last life, or the lowest free one.
  int rank = kNoRank;
  // Default: none. Who makes up the world, if known: so that those who are missing can be named.
  std::vector<std::string> expected = {};
  // Default: false. Takes the name over from a holder that is not known to be dead.
  bool replace = false;
  // Default: 0: a new life. Else: this life goes on, with the incarnation that it already has, at a
  // store that was started again; doesn't wait.
  Incarnation incarnation = {};
  // Default: 30 s. How long to wait for the world.
  absl::Duration timeout = absl::Seconds(30);
};

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;

  // INVALID_ARGUMENT: the request; ALREADY_EXISTS: name or rank are held, with the holder's
  // address; FAILED_PRECONDITION: another world size, or the world is full; ABORTED: replaced by a
  // later life of the same name; DEADLINE_EXCEEDED: the world is incomplete, with who is there and
  // who is missing.
  virtual Future<Membership> Join(JoinRequest request) = 0;

  // A living member. Waits for one until `timeout`: NOT_FOUND, with those that are there.
  virtual Future<Member> Resolve(const std::string& name, absl::Duration timeout) = 0;
  virtual Future<Member> ResolveRank(int rank, absl::Duration timeout) = 0;

  // Frees name and rank; OK if they are free. FAILED_PRECONDITION: a later life holds the name.
  virtual Future<void> Leave(const std::string& name, Incarnation incarnation) = 0;
};

// INVALID_ARGUMENT: not 1 to 128 characters of [A-Za-z0-9_.-/~:].
absl::Status CheckMemberName(absl::string_view name);
absl::Status CheckRank(int rank);
// All that can be said about a request without knowing the world.
absl::Status CheckJoinRequest(const JoinRequest& request);

}  // namespace gradwire::rpc
