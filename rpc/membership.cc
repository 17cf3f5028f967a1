#include "rpc/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/static_store.h"

namespace gradwire::rpc {
namespace {

// A store answers by the timeout that it was given; more than this above it, and it is gone.
constexpr absl::Duration kGrace = absl::Seconds(5);
// Leaving is a courtesy: the rendezvous finds out by itself.
constexpr absl::Duration kMaxLeave = absl::Seconds(2);

uint64_t NewInstance(Rng& rng) {
  uint64_t instance = 0;
  while (instance == 0) instance = rng.Next();
  return instance;
}

absl::Status AddTo(Node& node, const Member& member) {
  return node.AddPeer(member.name, member.address, /*any_name=*/false, member.incarnation);
}

// Whether connecting may work later.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::StatusOr<RendezvousConfig> ReadRendezvous(absl::string_view rendezvous,
                                                absl::string_view peers) {
  GW_ASSIGN_OR_RETURN(RendezvousConfig config, ParseRendezvous(rendezvous));
  if (!peers.empty()) {
    if (config.kind != RendezvousKind::kNone) {
      return absl::InvalidArgumentError(absl::StrCat(
          "both peers and rendezvous \"", EscapedString(rendezvous.substr(0, 80)),
          "\" say who is there; give one of them (Agent::AddPeer takes further addresses)"));
    }
    GW_ASSIGN_OR_RETURN(config.members, ParseMembers(peers), _ << "peers");
  }
  if (config.kind == RendezvousKind::kNone) config.kind = RendezvousKind::kStatic;
  return config;
}

JobMembership::JobMembership(Options options, RendezvousConfig config,
                             std::shared_ptr<RendezvousStore> store, Clock* clock, Rng& rng)
    : options_(std::move(options)),
      config_(std::move(config)),
      clock_(clock),
      instance_(NewInstance(rng)),
      store_(std::move(store)) {}

Future<Membership> JobMembership::StartJoin(const std::string& address) {
  JoinRequest request;
  request.name = options_.name;
  request.address = address;
  request.instance = instance_;
  request.world_size = options_.world_size;
  request.rank = options_.rank;
  request.timeout = options_.join_timeout;
  // Who is on a list belongs to its world, whether it waits for the others or not.
  if (!asks() && request.world_size == 0 &&
      std::any_of(config_.members.begin(), config_.members.end(),
                  [&](const Member& member) { return member.name == options_.name; })) {
    request.world_size = static_cast<int>(config_.members.size());
  }
  {
    MutexLock lock(mu_);
    join_deadline_ = clock_->Now() + options_.join_timeout;
  }
  return store_->Join(std::move(request));
}

absl::Status JobMembership::Finish(const Membership& joined, Node& node) {
  absl::Time deadline;
  {
    MutexLock lock(mu_);
    self_ = joined.self;
    joined_ = true;
    world_size_ = joined.world_size;
    deadline = join_deadline_;
  }
  if (node.incarnation().value == 0) {
    GW_RETURN_IF_ERROR(node.SetIncarnation(joined.self.incarnation));
  }
  for (const Member& member : joined.members) {
    Learn(member);
    if (member.name == options_.name || member.address.empty()) continue;
    GW_RETURN_IF_ERROR(AddTo(node, member));
  }
  if (asks() || options_.world_size == 0) return absl::OkStatus();
  return ReachListed(node, deadline);
}

absl::Status JobMembership::ReachListed(Node& node, absl::Time deadline) {
  const absl::Time started = clock_->Now();
  std::vector<std::pair<const Member*, Future<void>>> waiting;
  for (const Member& member : config_.members) {
    if (member.name != options_.name) waiting.emplace_back(&member, node.Connect(member.name));
  }
  std::vector<std::string> missing;
  absl::Status last;
  for (auto& [member, connected] : waiting) {
    while (true) {
      const absl::Duration left = std::max(absl::ZeroDuration(), deadline - clock_->Now());
      absl::Status status = connected.Wait(left);
      if (status.ok()) break;
      if (connected.ready() && !MayPass(status)) {
        return WithContext(status, absl::StrCat("the world of ", options_.name));
      }
      if (left == absl::ZeroDuration()) {
        missing.push_back(absl::StrCat(member->name, " (", member->address, ")"));
        break;
      }
      if (!connected.ready()) {
        // On a thread that must not wait.
        if (!absl::IsDeadlineExceeded(status)) return status;
        continue;
      }
      connected = node.Connect(member->name);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      options_.name, " waited ",
      absl::FormatDuration(absl::Trunc(clock_->Now() - started, absl::Milliseconds(1))),
      " for its world: ", missing.size(), " of ", config_.members.size(),
      " can't be reached: ", absl::StrJoin(missing, ", "),
      "; start those who are missing, check their addresses, or wait longer with --join-timeout"));
}

void JobMembership::Learn(const Member& member) {
  if (member.rank == kNoRank) return;
  MutexLock lock(mu_);
  // Its former rank, should it have another one now.
  absl::erase_if(by_rank_, [&](const auto& known) { return known.second.name == member.name; });
  by_rank_[member.rank] = member;
}

absl::Status JobMembership::Find(const std::string& name, Node& node) {
  if (!asks()) return absl::NotFoundError(absl::StrCat("no ", name, " in the list"));
  GW_ASSIGN_OR_RETURN(
      const Member found,
      store_->Resolve(name, options_.find_timeout).Wait(options_.find_timeout + kGrace));
  Learn(found);
  if (found.address.empty()) {
    return absl::NotFoundError(
        absl::StrCat(name, " listens nowhere; it can be called once it has called here"));
  }
  return AddTo(node, found);
}

absl::StatusOr<std::string> JobMembership::FindRank(int rank, absl::Duration timeout, Node& node) {
  {
    MutexLock lock(mu_);
    if (!asks() || rank < 0 || (world_size_ > 0 && rank >= world_size_)) {
      return absl::NotFoundError(absl::StrCat("agent ", options_.name, " knows ", by_rank_.size(),
                                              " ranks; there is no rank ", rank));
    }
  }
  absl::StatusOr<Member> found = store_->ResolveRank(rank, timeout).Wait(timeout + kGrace);
  GW_RETURN_IF_ERROR(found.status(), _ << "agent " << options_.name);
  Learn(*found);
  if (found->name != options_.name && !found->address.empty()) {
    GW_RETURN_IF_ERROR(AddTo(node, *found));
  }
  return std::move(found->name);
}

std::string JobMembership::NameOfRank(int rank) const {
  MutexLock lock(mu_);
  const auto found = by_rank_.find(rank);
  return found == by_rank_.end() ? "" : found->second.name;
}

Future<std::string> JobMembership::Resolve(const std::string& name) {
  return store_->Resolve(name, absl::ZeroDuration())
      .ThenInline([weak = weak_from_this()](
                      const absl::StatusOr<Member>& found) -> absl::StatusOr<std::string> {
        if (!found.ok()) return found.status();
        if (const auto self = weak.lock()) self->Learn(*found);
        if (found->address.empty()) {
          return absl::NotFoundError(absl::StrCat(found->name, " listens nowhere"));
        }
        return found->address;
      });
}

absl::Status JobMembership::Leave(absl::Duration timeout) {
  Member self;
  {
    MutexLock lock(mu_);
    if (!joined_) return absl::OkStatus();
    joined_ = false;
    self = self_;
  }
  return store_->Leave(self.name, self.incarnation).Wait(std::min(timeout, kMaxLeave));
}

Member JobMembership::self() const {
  MutexLock lock(mu_);
  return self_;
}

int JobMembership::world_size() const {
  MutexLock lock(mu_);
  return world_size_;
}

std::vector<Member> JobMembership::members() const {
  MutexLock lock(mu_);
  std::vector<Member> members;
  for (const auto& [rank, member] : by_rank_) members.push_back(member);
  return members;
}

}  // namespace gradwire::rpc
