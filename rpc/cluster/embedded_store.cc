#include "rpc/cluster/embedded_store.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/mutex.h"
#include "rpc/base/status.h"
#include "rpc/cluster/world.h"

namespace gradwire::rpc {
namespace {

Incarnation FirstIncarnation(Clock& clock) {
  const auto now = static_cast<uint64_t>(clock.WallNowNanos());
  return Incarnation{(now / 1'000'000'000) << 32 | now % 1'000'000'000};
}

}  // namespace

struct EmbeddedStore::State : std::enable_shared_from_this<State> {
  struct Joiner {
    JoinRequest request;
    Promise<Membership> promise;
    absl::Time started;
    absl::Time deadline;
    absl::Time takeover_until;
    bool admitted = false;
    Member self;
  };
  struct Seeker {
    std::string name;  // or, empty: by rank
    int rank = kNoRank;
    Promise<Member> promise;
    absl::Time started;
    absl::Time deadline;
  };
  // What is to be done once the lock is released.
  using Actions = std::vector<std::function<void()>>;

  State(Clock* clock_to_use, EmbeddedStoreOptions limits)
      : clock(clock_to_use),
        options(limits),
        first(limits.first_incarnation.value != 0 ? limits.first_incarnation
                                                  : FirstIncarnation(*clock_to_use)) {}

  static void Do(Actions& actions) {
    for (auto& action : actions) action();
  }
  // Brings everything up to date after a change.
  void Settle(Actions& actions) GW_REQUIRES(mu);
  void AdmitWaiting(absl::Time now, Actions& actions) GW_REQUIRES(mu);
  void Complete(absl::Time now, Actions& actions) GW_REQUIRES(mu);
  bool Expire(absl::Time now, Actions& actions) GW_REQUIRES(mu);
  void Answer(absl::Time now, Actions& actions) GW_REQUIRES(mu);
  void ArmTimer() GW_REQUIRES(mu);
  void End(uint64_t id, absl::StatusOr<Membership> outcome, Actions& actions) GW_REQUIRES(mu);
  void End(uint64_t id, absl::StatusOr<Member> outcome, Actions& actions) GW_REQUIRES(mu);
  absl::Status Room() const GW_REQUIRES(mu);
  void Withdraw(const Member& self) GW_REQUIRES(mu);
  Future<Membership> Join(JoinRequest request) GW_EXCLUDES(mu);
  void AbandonJoin(uint64_t id) GW_EXCLUDES(mu);
  Future<Member> Seek(Seeker seeker, absl::Duration timeout) GW_EXCLUDES(mu);

  Clock* const clock;
  const EmbeddedStoreOptions options;
  const Incarnation first;
  mutable Mutex mu;
  World world GW_GUARDED_BY(mu);
  absl::Status closed GW_GUARDED_BY(mu);
  uint64_t last_id GW_GUARDED_BY(mu) = 0;
  absl::btree_map<uint64_t, Joiner> joiners GW_GUARDED_BY(mu);
  absl::btree_map<uint64_t, Seeker> seekers GW_GUARDED_BY(mu);
  // Since when somebody waits for an incomplete world.
  absl::Time waiting_since GW_GUARDED_BY(mu) = absl::InfiniteFuture();
  TimerId timer GW_GUARDED_BY(mu);
  absl::Time timer_at GW_GUARDED_BY(mu) = absl::InfiniteFuture();
};

void EmbeddedStore::State::Settle(Actions& actions) {
  const absl::Time now = clock->Now();
  AdmitWaiting(now, actions);
  Complete(now, actions);
  if (Expire(now, actions)) {  // what they gave back, others may wait for
    AdmitWaiting(now, actions);
    Complete(now, actions);
  }
  Answer(now, actions);
  ArmTimer();
}

// Sets a promise once the lock is released.
template <class T>
std::function<void()> Later(Promise<T> promise, absl::StatusOr<T> outcome) {
  auto shared = std::make_shared<Promise<T>>(std::move(promise));
  return [shared, outcome = std::move(outcome)] { shared->Set(outcome); };
}

// Ends the join or the look-up `id`, which is there.
void EmbeddedStore::State::End(uint64_t id, absl::StatusOr<Membership> outcome, Actions& actions) {
  const auto found = joiners.find(id);
  actions.push_back(Later(std::move(found->second.promise), std::move(outcome)));
  joiners.erase(found);
}
void EmbeddedStore::State::End(uint64_t id, absl::StatusOr<Member> outcome, Actions& actions) {
  const auto found = seekers.find(id);
  actions.push_back(Later(std::move(found->second.promise), std::move(outcome)));
  seekers.erase(found);
}

void EmbeddedStore::State::AdmitWaiting(absl::Time now, Actions& actions) {
  std::vector<uint64_t> ids;
  for (const auto& [id, joiner] : joiners) {
    if (!joiner.admitted) ids.push_back(id);
  }
  for (const uint64_t id : ids) {
    Joiner& joiner = joiners.find(id)->second;
    absl::StatusOr<Member> self = world.Admit(joiner.request, first);
    if (self.ok()) {
      joiner.admitted = true;
      joiner.self = *std::move(self);
    } else if (!absl::IsAlreadyExists(self.status()) || now >= joiner.takeover_until) {
      End(id, absl::StatusOr<Membership>(self.status()), actions);
    }
  }
}

void EmbeddedStore::State::Complete(absl::Time now, Actions& actions) {
  std::vector<std::pair<uint64_t, absl::StatusOr<Membership>>> ended;
  const bool complete = world.complete();
  bool any_waits = false;
  for (const auto& [id, joiner] : joiners) {
    if (!joiner.admitted) continue;
    const Member* const current = world.Find(joiner.self.name);
    if (current == nullptr) {
      ended.emplace_back(
          id, absl::CancelledError(absl::StrCat(joiner.self.name, " was reported dead or left")));
    } else if (current->incarnation != joiner.self.incarnation) {
      ended.emplace_back(id, absl::AbortedError(absl::StrCat(
                                 joiner.self.name, " was replaced by incarnation ",
                                 current->incarnation.value, " at ", current->address)));
    } else if (complete || joiner.request.world_size == 0 ||
               joiner.request.incarnation.value != 0) {
      ended.emplace_back(id, world.View(*current));
    } else {
      any_waits = true;
    }
  }
  for (auto& [id, outcome] : ended) End(id, std::move(outcome), actions);
  if (!any_waits) {
    waiting_since = absl::InfiniteFuture();
  } else if (waiting_since == absl::InfiniteFuture()) {
    waiting_since = now;
  }
}

// Whether anybody's time was over.
bool EmbeddedStore::State::Expire(absl::Time now, Actions& actions) {
  const bool all =
      waiting_since != absl::InfiniteFuture() && now >= waiting_since + options.join_timeout;
  // Everybody is told what was so before the first of them went.
  std::vector<std::pair<uint64_t, absl::Status>> ended;
  for (const auto& [id, joiner] : joiners) {
    if (now >= joiner.deadline || (all && joiner.admitted)) {
      ended.emplace_back(id, Incomplete(joiner.request, now - joiner.started, world));
    }
  }
  for (auto& [id, why] : ended) {
    const bool admitted = joiners.find(id)->second.admitted;
    const Member self = joiners.find(id)->second.self;
    End(id, absl::StatusOr<Membership>(std::move(why)), actions);
    if (admitted) Withdraw(self);
  }
  if (all) waiting_since = absl::InfiniteFuture();
  return !ended.empty();
}

// A join that failed leaves nothing behind, unless the same process waits once more.
void EmbeddedStore::State::Withdraw(const Member& self) {
  for (const auto& [id, other] : joiners) {
    if (other.admitted && other.self.incarnation == self.incarnation) return;
  }
  (void)world.Remove(self.name, self.incarnation);
}

void EmbeddedStore::State::Answer(absl::Time now, Actions& actions) {
  std::vector<std::pair<uint64_t, absl::StatusOr<Member>>> ended;
  for (const auto& [id, seeker] : seekers) {
    const Member* const found =
        seeker.name.empty() ? world.FindRank(seeker.rank) : world.Find(seeker.name);
    if (found != nullptr) {
      ended.emplace_back(id, *found);
    } else if (now >= seeker.deadline) {
      ended.emplace_back(id, NotThere(seeker.name, seeker.rank, now - seeker.started, world));
    }
  }
  for (auto& [id, outcome] : ended) End(id, std::move(outcome), actions);
}

void EmbeddedStore::State::ArmTimer() {
  absl::Time at = waiting_since + options.join_timeout;
  for (const auto& [id, joiner] : joiners) {
    at = std::min(at, joiner.deadline);
    if (!joiner.admitted) at = std::min(at, joiner.takeover_until);
  }
  for (const auto& [id, seeker] : seekers) at = std::min(at, seeker.deadline);
  if (at == timer_at) return;
  if (timer_at != absl::InfiniteFuture()) clock->CancelTimer(timer);
  timer_at = at;
  if (at == absl::InfiniteFuture()) return;
  timer = clock->CallAt(at, [weak = weak_from_this(), at] {
    const auto state = weak.lock();
    if (state == nullptr) return;
    Actions actions;
    {
      MutexLock lock(state->mu);
      if (state->timer_at == at) state->timer_at = absl::InfiniteFuture();
      state->Settle(actions);
    }
    Do(actions);
  });
}

EmbeddedStore::EmbeddedStore(Clock* clock, EmbeddedStoreOptions options)
    : state_(std::make_shared<State>(clock, options)) {}

EmbeddedStore::~EmbeddedStore() { Close(absl::UnavailableError("the rendezvous has ended")); }

Future<Membership> EmbeddedStore::Join(JoinRequest request) {
  if (absl::Status bad = CheckJoinRequest(request); !bad.ok()) {
    return Future<Membership>(std::move(bad));
  }
  return state_->Join(std::move(request));
}

Future<Membership> EmbeddedStore::State::Join(JoinRequest request) {
  State::Joiner joiner;
  Future<Membership> future = joiner.promise.future();
  Actions actions;
  {
    MutexLock lock(mu);
    if (absl::Status refused = Room(); !refused.ok()) return Future<Membership>(std::move(refused));
    const uint64_t id = ++last_id;
    joiner.promise.OnCancel([weak = weak_from_this(), id] {
      if (const auto state = weak.lock()) state->AbandonJoin(id);
    });
    joiner.started = clock->Now();
    const absl::Duration timeout =
        std::clamp(request.timeout, absl::ZeroDuration(), options.max_timeout);
    joiner.deadline = joiner.started + timeout;
    joiner.takeover_until = joiner.started + std::min(timeout, options.takeover_patience);
    joiner.request = std::move(request);
    joiners.emplace(id, std::move(joiner));
    Settle(actions);
  }
  Do(actions);
  return future;
}

// Its future was cancelled.
void EmbeddedStore::State::AbandonJoin(uint64_t id) {
  Actions actions;
  {
    MutexLock lock(mu);
    const auto found = joiners.find(id);
    if (found == joiners.end()) return;
    const bool admitted = found->second.admitted;
    const Member self = found->second.self;
    joiners.erase(found);  // its promise has an outcome: nothing runs
    if (admitted) Withdraw(self);
    Settle(actions);
  }
  Do(actions);
}

absl::Status EmbeddedStore::State::Room() const {
  if (!closed.ok() || joiners.size() + seekers.size() < options.max_waiting_count) return closed;
  return absl::ResourceExhaustedError(absl::StrCat("the rendezvous has ", options.max_waiting_count,
                                                   " waiting; that is the limit"));
}

Future<Member> EmbeddedStore::State::Seek(Seeker seeker, absl::Duration timeout) {
  Future<Member> future = seeker.promise.future();
  Actions actions;
  {
    MutexLock lock(mu);
    if (absl::Status refused = Room(); !refused.ok()) return Future<Member>(std::move(refused));
    const uint64_t id = ++last_id;
    seeker.promise.OnCancel([weak = weak_from_this(), id] {
      const auto state = weak.lock();
      if (state == nullptr) return;
      MutexLock lock(state->mu);
      state->seekers.erase(id);  // its promise has an outcome: nothing runs
    });
    seeker.started = clock->Now();
    seeker.deadline =
        seeker.started + std::clamp(timeout, absl::ZeroDuration(), options.max_timeout);
    seekers.emplace(id, std::move(seeker));
    Settle(actions);
  }
  Do(actions);
  return future;
}

Future<Member> EmbeddedStore::Resolve(const std::string& name, absl::Duration timeout) {
  if (absl::Status bad = CheckMemberName(name); !bad.ok()) return Future<Member>(std::move(bad));
  State::Seeker seeker;
  seeker.name = name;
  return state_->Seek(std::move(seeker), timeout);
}

Future<Member> EmbeddedStore::ResolveRank(int rank, absl::Duration timeout) {
  if (absl::Status bad = CheckRank(rank); !bad.ok()) return Future<Member>(std::move(bad));
  State::Seeker seeker;
  seeker.rank = rank;
  return state_->Seek(std::move(seeker), timeout);
}

Future<void> EmbeddedStore::Leave(const std::string& name, Incarnation incarnation) {
  State::Actions actions;
  absl::Status left;
  {
    MutexLock lock(state_->mu);
    left = state_->closed.ok() ? state_->world.Remove(name, incarnation) : state_->closed;
    state_->Settle(actions);
  }
  State::Do(actions);
  return Future<void>(std::move(left));
}

void EmbeddedStore::ReportDead(const std::string& name, uint64_t instance) {
  State::Actions actions;
  {
    MutexLock lock(state_->mu);
    state_->world.MarkDead(name, instance);
    state_->Settle(actions);
  }
  State::Do(actions);
}

std::vector<Member> EmbeddedStore::Members() const {
  MutexLock lock(state_->mu);
  std::vector<Member> members;
  for (const auto& [name, entry] : state_->world.entries()) {
    if (entry.live) members.push_back(entry.member);
  }
  return members;
}

void EmbeddedStore::Close(const absl::Status& why) {
  State::Actions actions;
  {
    MutexLock lock(state_->mu);
    if (!state_->closed.ok()) return;
    state_->closed = why.ok() ? absl::UnavailableError("the rendezvous has ended") : why;
    while (!state_->joiners.empty()) {
      state_->End(state_->joiners.begin()->first, absl::StatusOr<Membership>(state_->closed),
                  actions);
    }
    while (!state_->seekers.empty()) {
      state_->End(state_->seekers.begin()->first, absl::StatusOr<Member>(state_->closed), actions);
    }
    state_->waiting_since = absl::InfiniteFuture();
    state_->ArmTimer();
  }
  State::Do(actions);
}

}  // namespace gradwire::rpc
