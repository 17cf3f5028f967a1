#include "rpc/cluster/world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"

namespace gradwire::rpc {
namespace {

constexpr size_t kMaxListed = 20;

std::string Listed(const std::vector<std::string>& names) {
  if (names.size() <= kMaxListed) return absl::StrJoin(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kMaxListed);
  return absl::StrCat(absl::StrJoin(first, ", "), " and ", names.size() - kMaxListed, " more");
}

std::string Shown(const Member& member) {
  return member.address.empty() ? member.name
                                : absl::StrCat(member.name, " (", member.address, ")");
}

absl::Status Held(const JoinRequest& request, const Member& holder) {
  return absl::AlreadyExistsError(absl::StrCat(
      "the name ", request.name, " is in use",
      holder.address.empty() ? "" : absl::StrCat(" at ", holder.address), " (incarnation ",
      holder.incarnation.value, "); this one, ",
      request.address.empty() ? "which listens nowhere" : absl::StrCat("at ", request.address),
      ", needs another name, or the other one has to end"));
}

absl::Status Replaced(const JoinRequest& request, const Member& holder) {
  return absl::AbortedError(
      absl::StrCat(request.name, ", incarnation ", request.incarnation.value,
                   ", was replaced by incarnation ", holder.incarnation.value,
                   holder.address.empty() ? "" : absl::StrCat(" at ", holder.address)));
}

}  // namespace

absl::StatusOr<World> World::FromParts(uint64_t last_incarnation, int world_size,
                                       std::vector<Entry> entries) {
  const auto bad = [](auto&&... why) { return absl::InvalidArgumentError(absl::StrCat(why...)); };
  if (world_size < 0 || world_size > kMaxMembers) return bad("world size ", world_size);
  if (entries.size() > static_cast<size_t>(kMaxMembers)) return bad("too many members");
  if (last_incarnation > UINT64_MAX - (uint64_t{1} << 32)) {
    return bad("the last incarnation leaves no room for later lives");
  }
  World world;
  world.last_incarnation_ = last_incarnation;
  world.world_size_ = world_size;
  std::set<int> ranks;
  for (Entry& entry : entries) {
    const Member& member = entry.member;
    GW_RETURN_IF_ERROR(CheckMemberName(member.name));
    if (!member.address.empty()) {
      GW_RETURN_IF_ERROR(ParseDialAddress(member.address).status(), _ << member.name);
    }
    if (member.rank < kNoRank || member.rank >= std::max(world_size, 0)) {
      return bad(member.name, ": rank ", member.rank, " in a world of ", world_size);
    }
    if (member.rank != kNoRank && !ranks.insert(member.rank).second) {
      return bad("rank ", member.rank, " is there twice");
    }
    if (member.incarnation.value == 0 || member.incarnation.value > last_incarnation ||
        entry.instance == 0) {
      return bad(member.name, ": incarnation or instance can't be");
    }
    std::string name = member.name;
    if (!world.entries_.emplace(name, std::move(entry)).second) return bad(name, " is there twice");
  }
  return world;
}

absl::StatusOr<Member> World::Admit(const JoinRequest& request, Incarnation floor) {
  GW_RETURN_IF_ERROR(CheckJoinRequest(request));
  // A world that nobody lives in takes any size; its ranks stay reserved if the size is the same.
  if (request.world_size != 0 && request.world_size != world_size_ && live_count() == 0) {
    std::erase_if(entries_, [](const auto& item) { return !item.second.live; });
    world_size_ = request.world_size;
  }
  if (request.world_size != 0 && request.world_size != world_size_) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.name, " is for a world of ", request.world_size, ", and this one has ",
                     world_size_, "; there are: ", Present(), "; give all the same --world-size"));
  }
  const auto found = entries_.find(request.name);
  const Entry* const holder = found == entries_.end() ? nullptr : &found->second;
  const bool goes_on = request.incarnation.value != 0;
  if (holder != nullptr) {
    const bool same = holder->instance == request.instance;
    if (same && (!goes_on || holder->member.incarnation == request.incarnation)) {
      found->second.live = true;
      found->second.member.address = request.address;
      return found->second.member;
    }
    if (goes_on && request.incarnation <= holder->member.incarnation) {
      return Replaced(request, holder->member);
    }
    const bool same_place = !request.address.empty() && request.address == holder->member.address;
    if (holder->live && !goes_on && !request.replace && !same_place) {
      return Held(request, holder->member);
    }
  } else if (entries_.size() >= static_cast<size_t>(kMaxMembers)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", entries_.size(), " members; that is the limit"));
  }
  if (!goes_on && last_incarnation_ == UINT64_MAX) {
    return absl::ResourceExhaustedError("the rendezvous has no incarnations left; empty it");
  }
  GW_ASSIGN_OR_RETURN(const int rank, ChooseRank(request, holder));

  Entry entry;
  entry.member.name = request.name;
  entry.member.address = request.address;
  entry.member.rank = rank;
  entry.instance = request.instance;
  entry.chose_rank = request.rank != kNoRank;
  entry.member.incarnation =
      goes_on ? request.incarnation : Incarnation{std::max(last_incarnation_ + 1, floor.value)};
  last_incarnation_ = std::max(last_incarnation_, entry.member.incarnation.value);
  if (rank != kNoRank) {
    // Whoever had that rank is dead; it is no longer kept for that name.
    std::erase_if(entries_, [&](const auto& item) {
      return item.second.member.rank == rank && item.first != request.name;
    });
  }
  Entry& placed = entries_[request.name];
  placed = std::move(entry);
  return placed.member;
}

absl::StatusOr<int> World::ChooseRank(const JoinRequest& request, const Entry* last_life) const {
  if (request.world_size == 0) return kNoRank;
  if (request.rank != kNoRank) {
    const Entry* const other = HolderOf(request.rank);
    if (other != nullptr && other->live && other->member.name != request.name) {
      return absl::AlreadyExistsError(
          absl::StrCat("rank ", request.rank, ", which ", request.name,
                       request.address.empty() ? "" : absl::StrCat(" (", request.address, ")"),
                       " asks for, is held by ", Shown(other->member),
                       "; give all processes a rank of their own, or none"));
    }
    return request.rank;
  }
  if (last_life != nullptr && last_life->member.rank != kNoRank) return last_life->member.rank;
  const auto named = std::find(request.expected.begin(), request.expected.end(), request.name);
  if (named != request.expected.end()) {
    const int place = static_cast<int>(named - request.expected.begin());
    const Entry* const other = HolderOf(place);
    if (other == nullptr || !other->live) return place;
  }
  std::vector<const Entry*> holders(static_cast<size_t>(world_size_), nullptr);
  for (const auto& [name, entry] : entries_) {
    if (entry.member.rank != kNoRank) holders[static_cast<size_t>(entry.member.rank)] = &entry;
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    if (holders[static_cast<size_t>(rank)] == nullptr) return rank;
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!holders[static_cast<size_t>(rank)]->live) return rank;
  }
  return absl::FailedPreconditionError(absl::StrCat("the world of ", world_size_, " is full, and ",
                                                    request.name,
                                                    " is not one of it; there are: ", Present()));
}

absl::Status World::Remove(const std::string& name, Incarnation incarnation) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second.member.incarnation < incarnation) {
    return absl::OkStatus();
  }
  if (found->second.member.incarnation != incarnation) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ", incarnation ", incarnation.value, ", was replaced by incarnation ",
                     found->second.member.incarnation.value, "; it has nothing to leave"));
  }
  entries_.erase(found);
  return absl::OkStatus();
}

bool World::MarkDead(const std::string& name, uint64_t instance) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !found->second.live || found->second.instance != instance) {
    return false;
  }
  found->second.live = false;
  if (found->second.member.rank == kNoRank) entries_.erase(found);
  return true;
}

const Member* World::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() || !found->second.live ? nullptr : &found->second.member;
}

const World::Entry* World::HolderOf(int rank) const {
  for (const auto& [name, entry] : entries_) {
    if (entry.member.rank == rank) return &entry;
  }
  return nullptr;
}

const Member* World::FindRank(int rank) const {
  if (rank < 0) return nullptr;
  const Entry* const holder = HolderOf(rank);
  return holder == nullptr || !holder->live ? nullptr : &holder->member;
}

int World::live_count() const {
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [](const auto& item) {
    return item.second.live && item.second.member.rank != kNoRank;
  }));
}

bool World::complete() const { return world_size_ > 0 && live_count() == world_size_; }

Membership World::View(const Member& self) const {
  Membership view;
  view.self = self;
  view.world_size = world_size_;
  for (const auto& [name, entry] : entries_) {
    if (entry.live && entry.member.rank != kNoRank) view.members.push_back(entry.member);
  }
  std::sort(view.members.begin(), view.members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  return view;
}

std::string World::Present() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.live) names.push_back(Shown(entry.member));
  }
  return names.empty() ? "nobody" : Listed(names);
}

std::string World::Missing(const std::vector<std::string>& expected) const {
  std::vector<std::string> who;
  for (const std::string& name : expected) {
    if (Find(name) == nullptr) who.push_back(name);
  }
  const bool ranked = std::any_of(entries_.begin(), entries_.end(),
                                  [](const auto& item) { return item.second.chose_rank; });
  if (expected.empty()) {
    std::set<int> live;
    for (const auto& [name, entry] : entries_) {
      if (entry.member.rank == kNoRank) continue;
      if (entry.live) {
        live.insert(entry.member.rank);
      } else {
        who.push_back(absl::StrCat(name, " (has died)"));
        live.insert(entry.member.rank);
      }
    }
    for (int rank = 0; ranked && rank < world_size_; ++rank) {
      if (!live.contains(rank)) who.push_back(absl::StrCat("rank ", rank));
    }
  }
  const std::string count =
      absl::StrCat(world_size_ - live_count(), " of ", world_size_, " are missing");
  return who.empty() ? count : absl::StrCat(count, ": ", Listed(who));
}

absl::Status Incomplete(const JoinRequest& request, absl::Duration waited, const World& world) {
  return absl::DeadlineExceededError(absl::StrCat(
      request.name, " waited ", absl::FormatDuration(waited),
      " for its world: ", world.Missing(request.expected), "; there are: ", world.Present(),
      "; start those who are missing, or wait longer with --join-timeout"));
}

absl::Status NotThere(const std::string& name, int rank, absl::Duration waited,
                      const World& world) {
  return absl::NotFoundError(absl::StrCat(name.empty() ? absl::StrCat("rank ", rank) : name,
                                          " is not there after ", absl::FormatDuration(waited),
                                          "; there are: ", world.Present()));
}

}  // namespace gradwire::rpc
