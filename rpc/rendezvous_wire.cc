#include "rpc/rendezvous_wire.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"

namespace gradwire::rpc {
namespace {

WireMember MemberToWire(const Member& member) {
  return {member.name, member.address, member.incarnation.value, member.rank};
}

absl::StatusOr<Member> MemberFromWire(const WireMember& wire) {
  Member member{wire.name, wire.address, Incarnation{wire.incarnation}, wire.rank};
  GW_RETURN_IF_ERROR(CheckMemberName(member.name));
  if (!member.address.empty()) {
    GW_RETURN_IF_ERROR(ParseDialAddress(member.address).status(), _ << member.name);
  }
  if (member.rank != kNoRank) GW_RETURN_IF_ERROR(CheckRank(member.rank), _ << member.name);
  if (member.incarnation.value == 0) {
    return absl::InvalidArgumentError(absl::StrCat(member.name, " has no incarnation"));
  }
  return member;
}

absl::StatusOr<Membership> CheckedMembership(const WireJoined& wire) {
  Membership joined;
  GW_ASSIGN_OR_RETURN(joined.self, MemberFromWire(wire.self));
  if (wire.world_size < 0 || wire.world_size > kMaxMembers ||
      wire.members.size() > static_cast<size_t>(kMaxMembers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a world of ", wire.world_size, " with ", wire.members.size(), " members"));
  }
  joined.world_size = wire.world_size;
  std::set<std::string> names;
  std::set<int> ranks;
  for (const WireMember& one : wire.members) {
    GW_ASSIGN_OR_RETURN(Member member, MemberFromWire(one));
    if (member.rank == kNoRank || !ranks.insert(member.rank).second ||
        !names.insert(member.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(member.name, " has rank ", member.rank, " twice or not at all"));
    }
    joined.members.push_back(std::move(member));
  }
  return joined;
}

}  // namespace

WireVerdict ToWire(const absl::Status& status) {
  return {static_cast<uint32_t>(status.code()), std::string(status.message())};
}

absl::Status FromWire(const WireVerdict& verdict) {
  constexpr auto kHighest = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  const bool known = verdict.code <= kHighest;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(verdict.code) : absl::StatusCode::kUnknown,
      verdict.message);
}

WireJoin ToWire(const JoinRequest& request) {
  WireJoin wire;
  wire.name = request.name;
  wire.address = request.address;
  wire.instance = request.instance;
  wire.world_size = request.world_size;
  wire.rank = request.rank;
  wire.expected = request.expected;
  wire.replace = request.replace;
  wire.incarnation = request.incarnation.value;
  wire.timeout = request.timeout;
  return wire;
}

JoinRequest FromWire(WireJoin wire) {
  JoinRequest request;
  request.name = std::move(wire.name);
  request.address = std::move(wire.address);
  request.instance = wire.instance;
  request.world_size = wire.world_size;
  request.rank = wire.rank;
  request.expected = std::move(wire.expected);
  request.replace = wire.replace;
  request.incarnation = Incarnation{wire.incarnation};
  request.timeout = wire.timeout;
  return request;
}

WireJoined ToWire(const absl::StatusOr<Membership>& joined) {
  WireJoined wire;
  wire.verdict = ToWire(joined.status());
  if (!joined.ok()) return wire;
  wire.self = MemberToWire(joined->self);
  wire.world_size = joined->world_size;
  for (const Member& member : joined->members) wire.members.push_back(MemberToWire(member));
  return wire;
}

absl::StatusOr<Membership> FromWire(const WireJoined& wire) {
  GW_RETURN_IF_ERROR(FromWire(wire.verdict));
  absl::StatusOr<Membership> joined = CheckedMembership(wire);
  GW_RETURN_IF_ERROR(joined.status(), _ << "the rendezvous answers what can't be");
  return joined;
}

WireFound ToWire(const absl::StatusOr<Member>& found) {
  WireFound wire;
  wire.verdict = ToWire(found.status());
  if (found.ok()) wire.member = MemberToWire(*found);
  return wire;
}

absl::StatusOr<Member> FromWire(const WireFound& wire) {
  GW_RETURN_IF_ERROR(FromWire(wire.verdict));
  absl::StatusOr<Member> found = MemberFromWire(wire.member);
  GW_RETURN_IF_ERROR(found.status(), _ << "the rendezvous answers what can't be");
  return found;
}

}  // namespace gradwire::rpc
