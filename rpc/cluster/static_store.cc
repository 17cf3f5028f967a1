#include "rpc/cluster/static_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"

namespace gradwire::rpc {

absl::StatusOr<std::vector<Member>> ParseMembers(absl::string_view list) {
  std::vector<Member> members;
  if (list.empty()) return members;
  for (const absl::string_view entry : absl::StrSplit(list, ',')) {
    const std::string shown =
        absl::StrCat("member \"", EscapedString(entry.substr(0, 80)), "\" of the list");
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown, " is not name=host:port; write name=host:port,name=host:port"));
    }
    Member member;
    member.name = std::string(entry.substr(0, equals));
    GW_RETURN_IF_ERROR(CheckMemberName(member.name), _ << shown);
    GW_ASSIGN_OR_RETURN(const HostPort address, ParseDialAddress(entry.substr(equals + 1)),
                        _ << shown);
    member.address = address.ToString();
    member.rank = static_cast<int>(members.size());
    for (const Member& other : members) {
      if (other.name == member.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the list names ", member.name, " twice, at ", other.address, " and ", member.address));
      }
    }
    if (members.size() == static_cast<size_t>(kMaxMembers)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the list has more than ", kMaxMembers, " members"));
    }
    members.push_back(std::move(member));
  }
  return members;
}

StaticStore::StaticStore(Clock* clock, std::vector<Member> members)
    : clock_(clock), members_(std::move(members)) {}

const Member* StaticStore::Find(absl::string_view name) const {
  for (const Member& member : members_) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

std::string StaticStore::Listed() const {
  if (members_.empty()) return "the list is empty";
  std::vector<std::string> names;
  names.reserve(members_.size());
  for (const Member& member : members_) names.push_back(member.name);
  if (names.size() > 20) {
    names.resize(20);
    names.push_back("…");
  }
  return absl::StrCat("the list has: ", absl::StrJoin(names, ", "));
}

Future<Membership> StaticStore::Join(JoinRequest request) {
  const auto refuse = [](absl::Status why) { return Future<Membership>(std::move(why)); };
  if (absl::Status bad = CheckJoinRequest(request); !bad.ok()) return refuse(std::move(bad));
  const Member* const listed = Find(request.name);
  const int size = static_cast<int>(members_.size());
  if (request.world_size != 0 && request.world_size != size) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat(request.name, " is for a world of ", request.world_size, ", and the list has ",
                     size, " members")));
  }
  if (listed == nullptr && request.world_size != 0) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat(request.name, " is to have a rank but isn't in the list; ", Listed())));
  }
  if (request.rank != kNoRank && request.rank != listed->rank) {
    return refuse(absl::FailedPreconditionError(
        absl::StrCat(request.name, " asks for rank ", request.rank,
                     ", and its place in the list is ", listed->rank)));
  }
  Membership view;
  view.self.name = request.name;
  view.self.address = request.address;
  view.self.rank = listed == nullptr ? kNoRank : listed->rank;
  view.world_size = size;
  if (request.incarnation.value != 0) {
    view.self.incarnation = request.incarnation;
  } else {
    uint64_t last = last_incarnation_.load(std::memory_order_relaxed);
    uint64_t next = 0;
    do {
      next = std::max(last + 1, static_cast<uint64_t>(clock_->WallNowNanos()));
    } while (!last_incarnation_.compare_exchange_weak(last, next, std::memory_order_relaxed));
    view.self.incarnation = Incarnation{next};
  }
  view.members = members_;
  if (listed != nullptr) {
    view.members[static_cast<size_t>(listed->rank)].incarnation = view.self.incarnation;
  }
  return Future<Membership>(std::move(view));
}

Future<Member> StaticStore::Resolve(const std::string& name, absl::Duration) {
  const Member* const found = Find(name);
  if (found != nullptr) return Future<Member>(*found);
  return Future<Member>(absl::NotFoundError(
      absl::StrCat("no \"", EscapedString(name), "\" in the static list; ", Listed())));
}

Future<Member> StaticStore::ResolveRank(int rank, absl::Duration) {
  if (rank >= 0 && static_cast<size_t>(rank) < members_.size()) {
    return Future<Member>(members_[static_cast<size_t>(rank)]);
  }
  return Future<Member>(absl::NotFoundError(
      absl::StrCat("no rank ", rank, " in the static list of ", members_.size())));
}

Future<void> StaticStore::Leave(const std::string&, Incarnation) {
  return Future<void>(absl::OkStatus());
}

}  // namespace gradwire::rpc
