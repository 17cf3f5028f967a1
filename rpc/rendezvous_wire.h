// The rendezvous as ordinary functions: what an agent that serves tcp:// binds, and what those who
// join call. rpc/cluster/rendezvous.h says what they mean.
//
//   gradwire.rendezvous.join    lets a process in; answers when its world is complete (a long poll)
//   gradwire.rendezvous.find    a living member by name or rank; waits for it
//   gradwire.rendezvous.leave   frees name and rank
//
// Verdicts of the store travel inside the reply, so that they are told from what goes wrong on the
// way (a reply that was lost is asked for again, a verdict isn't). Nobody reports others dead:
// whoever lost its own connection to somebody knows nothing about them. The server sees its
// sessions to all.
//
// Thread-safety: stateless. Errors: INVALID_ARGUMENT: a reply that can't be, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/cluster/rendezvous.h"
#include "rpc/function.h"
#include "rpc/tensor/values.h"

namespace gradwire::rpc {

// Joining agents call under names of their own, since the name they ask for may be somebody else's:
// this, a number of their life, and the name.
inline constexpr absl::string_view kRendezvousCallerPrefix = "gradwire.rendezvous/";

struct WireMember {
  std::string name;
  std::string address;
  uint64_t incarnation = 0;
  int32_t rank = kNoRank;
  GW_FIELDS(name, address, incarnation, rank);
};

struct WireVerdict {
  uint32_t code = 0;  // absl::StatusCode
  std::string message;
  GW_FIELDS(code, message);
};

struct WireJoin {
  std::string name;
  std::string address;
  uint64_t instance = 0;
  int32_t world_size = 0;
  int32_t rank = kNoRank;
  std::vector<std::string> expected;
  bool replace = false;
  uint64_t incarnation = 0;
  absl::Duration timeout;
  GW_FIELDS(name, address, instance, world_size, rank, expected, replace, incarnation, timeout);
};

struct WireJoined {
  WireVerdict verdict;
  WireMember self;
  int32_t world_size = 0;
  std::vector<WireMember> members;
  GW_FIELDS(verdict, self, world_size, members);
};

struct WireFind {
  std::string name;  // "": by rank
  int32_t rank = kNoRank;
  absl::Duration timeout;
  GW_FIELDS(name, rank, timeout);
};

struct WireFound {
  WireVerdict verdict;
  WireMember member;
  GW_FIELDS(verdict, member);
};

inline constexpr Function<WireJoined(WireJoin)> kRendezvousJoin{"gradwire.rendezvous.join"};
inline constexpr Function<WireFound(WireFind)> kRendezvousFind{"gradwire.rendezvous.find"};
inline constexpr Function<WireVerdict(std::string, uint64_t)> kRendezvousLeave{
    "gradwire.rendezvous.leave"};

WireVerdict ToWire(const absl::Status& status);
absl::Status FromWire(const WireVerdict& verdict);

WireJoin ToWire(const JoinRequest& request);
JoinRequest FromWire(WireJoin wire);

WireJoined ToWire(const absl::StatusOr<Membership>& joined);
// What the store said, checked: names, addresses and ranks that can be.
absl::StatusOr<Membership> FromWire(const WireJoined& wire);

WireFound ToWire(const absl::StatusOr<Member>& found);
absl::StatusOr<Member> FromWire(const WireFound& wire);

}  // namespace gradwire::rpc
