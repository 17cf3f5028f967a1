#include "rpc/cluster/file_store.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/mutex.h"
#include "rpc/base/status.h"
#include "rpc/cluster/world.h"
#include "rpc/cluster/world_text.h"

namespace gradwire::rpc {
namespace {

// What one look at the folder came to: nothing yet (look again), or the end.
template <class T>
using Step = std::optional<Outcome<T>>;

}  // namespace

struct FileStore::State : std::enable_shared_from_this<State> {
  // One Join, Resolve or Leave: `step` runs on the executor again and again until it has an
  // outcome.
  template <class T>
  struct Work {
    Promise<T> promise;
    std::function<Step<T>(absl::Time now)> step;
    std::function<void()> undo;  // after a cancellation
    absl::Time lock_deadline;
  };

  State(FileSystem* fs_to_use, Clock* clock_to_use, Executor* executor_to_use,
        FileStoreOptions chosen)
      : fs(fs_to_use),
        clock(clock_to_use),
        executor(executor_to_use),
        options(std::move(chosen)),
        members_path(JoinPath(options.folder, "members")),
        lock_path(JoinPath(options.folder, "lock")) {}

  std::string AlivePath(Incarnation incarnation) const {
    return JoinPath(options.folder, absl::StrCat("alive.", incarnation.value));
  }
  template <class T>
  Future<T> Start(std::shared_ptr<Work<T>> work);
  template <class T>
  void Post(std::shared_ptr<Work<T>> work);
  template <class T>
  void Run(const std::shared_ptr<Work<T>>& work);
  bool closed() GW_EXCLUDES(mu) {
    MutexLock lock(mu);
    return is_closed;
  }

  absl::StatusOr<World> Load();
  // Calls change(world) while nobody else can change it, and saves if it is another one then.
  // UNAVAILABLE: the lock is held; try again.
  absl::Status Change(const std::function<absl::Status(World&)>& change);
  // Marks those whose alive lock nobody holds.
  absl::Status BuryDead(World& world);
  // Removes alive locks of lives that the world no longer knows and that have ended.
  void Sweep(const World& world);
  absl::Status Enter(const JoinRequest& request, World& world, Member& self);
  absl::Status Exit(const Member& self);
  void Forget(Incarnation incarnation);
  Step<Membership> JoinStep(const JoinRequest& request, Member& self, absl::Time started,
                            absl::Time deadline, absl::Time now);
  Future<Member> Seek(std::string name, int rank, absl::Duration timeout);

  FileSystem* const fs;
  Clock* const clock;
  Executor* const executor;
  const FileStoreOptions options;
  const std::string members_path;
  const std::string lock_path;
  Mutex mu;
  bool is_closed GW_GUARDED_BY(mu) = false;
  absl::btree_map<uint64_t, std::unique_ptr<FileLock>> alive GW_GUARDED_BY(mu);  // by incarnation
};

// ---- the loop around a step ----

template <class T>
Future<T> FileStore::State::Start(std::shared_ptr<Work<T>> work) {
  Future<T> future = work->promise.future();
  Post(std::move(work));
  return future;
}

template <class T>
void FileStore::State::Post(std::shared_ptr<Work<T>> work) {
  const absl::Status posted = executor->Post([weak = weak_from_this(), work] {
    if (const auto state = weak.lock(); state != nullptr && !state->closed()) {
      state->Run(work);
    } else {
      work->promise.Set(absl::UnavailableError("the rendezvous has ended"));
    }
  });
  if (!posted.ok()) work->promise.Set(posted);
}

template <class T>
void FileStore::State::Run(const std::shared_ptr<Work<T>>& work) {
  if (work->promise.done()) {  // cancelled
    if (work->undo) work->undo();
    return;
  }
  const absl::Time now = clock->Now();
  Step<T> outcome = work->step(now);
  absl::Duration again = options.poll;
  if (outcome.has_value() && absl::IsUnavailable(status_internal::ToStatus(*outcome))) {
    // The lock is held. Only that is UNAVAILABLE here.
    if (now < work->lock_deadline) {
      again = options.lock_poll;
      outcome.reset();
    }
  } else {
    work->lock_deadline = now + options.lock_timeout;
  }
  if (outcome.has_value()) {
    const bool gave_up = absl::IsUnavailable(status_internal::ToStatus(*outcome));
    const bool taken = work->promise.Set(*std::move(outcome));
    if ((gave_up || !taken) && work->undo) work->undo();
    return;
  }
  clock->CallAfter(again, [weak = weak_from_this(), work] {
    if (const auto state = weak.lock()) {
      state->Post(work);
    } else {
      work->promise.Set(absl::UnavailableError("the rendezvous has ended"));
    }
  });
}

// ---- the folder ----

absl::StatusOr<World> FileStore::State::Load() {
  absl::StatusOr<std::string> text = fs->ReadAll(members_path, kMaxWorldTextBytes);
  if (absl::IsNotFound(text.status())) return World();
  absl::StatusOr<World> world =
      text.ok() ? ParseWorld(*text) : absl::StatusOr<World>(text.status());
  GW_RETURN_IF_ERROR(world.status(), _ << "rendezvous file " << members_path
                                       << " (remove the folder if no job uses it)");
  return world;
}

absl::Status FileStore::State::Change(const std::function<absl::Status(World&)>& change) {
  GW_RETURN_IF_ERROR(fs->MakeDirs(options.folder), _ << "rendezvous folder");
  GW_ASSIGN_OR_RETURN(const std::unique_ptr<FileLock> lock, fs->TryLock(lock_path),
                      _ << "rendezvous folder, held by another process");
  GW_ASSIGN_OR_RETURN(World world, Load());
  const World before = world;
  GW_RETURN_IF_ERROR(change(world));
  if (world == before) return absl::OkStatus();
  absl::Status saved = fs->WriteAtomically(members_path, WriteWorld(world));
  // Not to be taken for a lock that is held.
  if (absl::IsUnavailable(saved)) saved = absl::InternalError(saved.message());
  return WithContext(saved, "rendezvous folder");
}

absl::Status FileStore::State::BuryDead(World& world) {
  std::vector<World::Entry> living;
  for (const auto& [name, entry] : world.entries()) {
    if (entry.live) living.push_back(entry);
  }
  for (const World::Entry& entry : living) {
    const std::string path = AlivePath(entry.member.incarnation);
    absl::StatusOr<std::unique_ptr<FileLock>> probe = fs->TryLock(path);
    if (absl::IsUnavailable(probe.status())) continue;
    GW_RETURN_IF_ERROR(probe.status(), _ << "rendezvous folder");
    world.MarkDead(entry.member.name, entry.instance);
    // No incarnation comes twice, so nobody will ever lock this file again.
    (void)fs->Remove(path);
  }
  return absl::OkStatus();
}

void FileStore::State::Sweep(const World& world) {
  const absl::StatusOr<std::vector<std::string>> names = fs->List(options.folder);
  if (!names.ok()) return;
  std::set<std::string> known;
  for (const auto& [name, entry] : world.entries()) {
    known.insert(AlivePath(entry.member.incarnation));
  }
  for (const std::string& name : *names) {
    const std::string path = JoinPath(options.folder, name);
    if (!absl::StartsWith(name, "alive.") || known.contains(path)) continue;
    if (fs->TryLock(path).ok()) (void)fs->Remove(path);
  }
}

// Admits and takes the alive lock, in that order: `self` is set only if both worked.
absl::Status FileStore::State::Enter(const JoinRequest& request, World& world, Member& self) {
  const Incarnation floor{static_cast<uint64_t>(std::max<int64_t>(clock->WallNowNanos(), 1))};
  GW_ASSIGN_OR_RETURN(Member admitted, world.Admit(request, floor));
  MutexLock lock(mu);
  if (is_closed) return absl::CancelledError("the rendezvous has ended");
  std::unique_ptr<FileLock>& held = alive[admitted.incarnation.value];
  if (held == nullptr) {
    absl::StatusOr<std::unique_ptr<FileLock>> taken = fs->TryLock(AlivePath(admitted.incarnation));
    if (!taken.ok()) {
      alive.erase(admitted.incarnation.value);
      // UNAVAILABLE would mean: try again.
      return absl::InternalError(
          absl::StrCat("taking the alive lock of ", admitted.name, ": ", taken.status().message()));
    }
    held = *std::move(taken);
  }
  self = std::move(admitted);
  return absl::OkStatus();
}

void FileStore::State::Forget(Incarnation incarnation) {
  {
    MutexLock lock(mu);
    if (alive.erase(incarnation.value) == 0) return;
  }
  (void)fs->Remove(AlivePath(incarnation));
}

absl::Status FileStore::State::Exit(const Member& self) {
  const absl::Status left =
      Change([&](World& world) { return world.Remove(self.name, self.incarnation); });
  if (!absl::IsUnavailable(left)) Forget(self.incarnation);
  return left;
}

// ---- the verbs ----

Step<Membership> FileStore::State::JoinStep(const JoinRequest& request, Member& self,
                                            absl::Time started, absl::Time deadline,
                                            absl::Time now) {
  const bool waits = request.world_size != 0 && request.incarnation.value == 0;
  if (self.incarnation.value != 0 && now < deadline) {
    // Looking needs no lock. Whether those who are there really live is found out with it.
    const absl::StatusOr<World> world = Load();
    if (!world.ok()) return world.status();
    const Member* const current = world->Find(self.name);
    if (current != nullptr && current->incarnation == self.incarnation && !world->complete()) {
      return std::nullopt;
    }
  }
  std::optional<Membership> view;
  absl::Status failed;
  absl::Status changed = Change([&](World& world) -> absl::Status {
    GW_RETURN_IF_ERROR(BuryDead(world));
    if (self.incarnation.value == 0) {
      Sweep(world);
      GW_RETURN_IF_ERROR(Enter(request, world, self));
    } else {
      const Member* const current = world.Find(self.name);
      if (current == nullptr || current->incarnation != self.incarnation) {
        return absl::AbortedError(absl::StrCat(self.name, ", incarnation ", self.incarnation.value,
                                               ", was replaced while it waited for its world"));
      }
    }
    if (!waits || world.complete()) {
      view = world.View(self);
    } else if (now >= deadline) {
      failed = Incomplete(request, now - started, world);
      return world.Remove(self.name, self.incarnation);
    }
    return absl::OkStatus();
  });
  if (!changed.ok() || !failed.ok()) {
    // While the lock is held somewhere else, nothing was found out.
    if (!absl::IsUnavailable(changed) && self.incarnation.value != 0) Forget(self.incarnation);
    return changed.ok() ? failed : changed;
  }
  if (view.has_value()) return *std::move(view);
  return std::nullopt;
}

FileStore::FileStore(FileSystem* fs, Clock* clock, Executor* executor, FileStoreOptions options)
    : state_(std::make_shared<State>(fs, clock, executor, std::move(options))) {}

FileStore::~FileStore() {
  absl::btree_map<uint64_t, std::unique_ptr<FileLock>> dropped;
  MutexLock lock(state_->mu);
  state_->is_closed = true;
  dropped.swap(state_->alive);
}

Future<Membership> FileStore::Join(JoinRequest request) {
  if (absl::Status bad = CheckJoinRequest(request); !bad.ok()) {
    return Future<Membership>(std::move(bad));
  }
  State* const state = state_.get();
  struct Joining {
    JoinRequest request;
    Member self;
  };
  auto joining = std::make_shared<Joining>();
  const absl::Time started = state->clock->Now();
  const absl::Time deadline =
      started + std::clamp(request.timeout, absl::ZeroDuration(), state->options.max_timeout);
  joining->request = std::move(request);
  auto work = std::make_shared<State::Work<Membership>>();
  work->lock_deadline = started + state->options.lock_timeout;
  work->step = [state, joining, started, deadline](absl::Time now) {
    return state->JoinStep(joining->request, joining->self, started, deadline, now);
  };
  work->undo = [state, joining] {
    if (joining->self.incarnation.value == 0) return;
    // Should the lock be held just now, the released alive lock tells the others all the same.
    if (!state->Exit(joining->self).ok()) state->Forget(joining->self.incarnation);
  };
  return state->Start(std::move(work));
}

Future<Member> FileStore::State::Seek(std::string name, int rank, absl::Duration timeout) {
  const absl::Time started = clock->Now();
  const absl::Time deadline =
      started + std::clamp(timeout, absl::ZeroDuration(), options.max_timeout);
  auto work = std::make_shared<Work<Member>>();
  work->lock_deadline = started + options.lock_timeout;
  work->step = [this, name = std::move(name), rank, started,
                deadline](absl::Time now) -> Step<Member> {
    const auto find = [&](const World& world) {
      return name.empty() ? world.FindRank(rank) : world.Find(name);
    };
    const absl::StatusOr<World> seen = Load();
    if (!seen.ok()) return seen.status();
    if (find(*seen) == nullptr && now < deadline) return std::nullopt;
    std::optional<Member> found;
    absl::Status none;
    absl::Status looked = Change([&](World& world) -> absl::Status {
      GW_RETURN_IF_ERROR(BuryDead(world));
      if (const Member* const member = find(world)) {
        found = *member;
      } else {
        none = NotThere(name, rank, now - started, world);
      }
      return absl::OkStatus();
    });
    if (!looked.ok()) return looked;
    if (found.has_value()) return *std::move(found);
    if (now >= deadline) return none;
    return std::nullopt;
  };
  return Start(std::move(work));
}

Future<Member> FileStore::Resolve(const std::string& name, absl::Duration timeout) {
  if (absl::Status bad = CheckMemberName(name); !bad.ok()) return Future<Member>(std::move(bad));
  return state_->Seek(name, kNoRank, timeout);
}

Future<Member> FileStore::ResolveRank(int rank, absl::Duration timeout) {
  if (absl::Status bad = CheckRank(rank); !bad.ok()) return Future<Member>(std::move(bad));
  return state_->Seek("", rank, timeout);
}

Future<void> FileStore::Leave(const std::string& name, Incarnation incarnation) {
  State* const state = state_.get();
  auto work = std::make_shared<State::Work<void>>();
  work->lock_deadline = state->clock->Now() + state->options.lock_timeout;
  Member self;
  self.name = name;
  self.incarnation = incarnation;
  work->step = [state, self](absl::Time) -> Step<void> { return state->Exit(self); };
  return state->Start(std::move(work));
}

}  // namespace gradwire::rpc
