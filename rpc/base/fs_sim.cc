#include "rpc/base/fs_sim.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/fs_sim_state.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace fs_internal {
namespace {

class SimFile final : public File {
 public:
  SimFile(std::shared_ptr<SimState> state, std::shared_ptr<Node> node, std::string path,
          bool writable, uint64_t size_bytes, uint64_t born)
      : File(size_bytes),
        state_(std::move(state)),
        node_(std::move(node)),
        path_(std::move(path)),
        writable_(writable),
        born_(born) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) override {
    GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kRead, path_));
    MutexLock lock(state_->mu);
    GW_RETURN_IF_ERROR(CheckAlive());
    if (offset >= node_->live.size()) return 0;
    return node_->live.copy(reinterpret_cast<char*>(out.data()), out.size(), offset);
  }

  absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kWrite, path_));
    MutexLock lock(state_->mu);
    GW_RETURN_IF_ERROR(CheckWritable("write"));
    if (bytes.empty()) return absl::OkStatus();
    if (offset > kMaxFileBytes || bytes.size() > kMaxFileBytes - offset) {
      return Fail(absl::StatusCode::kResourceExhausted, "write", path_, "file too large");
    }
    absl::Status status;
    std::string& live = node_->live;
    if (const uint64_t end = offset + bytes.size(); end > live.size()) {
      status = state_->Resize(*node_, path_, end);
      if (!status.ok()) {  // as much as there is room for
        const uint64_t room =
            state_->capacity_bytes - std::min(state_->used_bytes, state_->capacity_bytes);
        (void)state_->Resize(*node_, path_, live.size() + room);
      }
    }
    if (offset < live.size()) {
      const size_t count = std::min<uint64_t>(bytes.size(), live.size() - offset);
      std::memcpy(&live[offset], bytes.data(), count);
      node_->MarkDirty(offset, offset + count);
    }
    return status;
  }

  absl::StatusOr<uint64_t> Size() override {
    MutexLock lock(state_->mu);
    GW_RETURN_IF_ERROR(CheckAlive());
    return node_->live.size();
  }

  absl::Status Truncate(uint64_t size_bytes) override {
    GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kTruncate, path_));
    MutexLock lock(state_->mu);
    GW_RETURN_IF_ERROR(CheckWritable("truncate"));
    return state_->Resize(*node_, path_, size_bytes);
  }

  absl::Status Sync() override {
    GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kSync, path_));
    MutexLock lock(state_->mu);
    GW_RETURN_IF_ERROR(CheckAlive());
    node_->Sync();
    return absl::OkStatus();
  }

 private:
  absl::Status CheckAlive() GW_REQUIRES(state_->mu) {
    if (born_ == state_->crash_count) return absl::OkStatus();
    return Fail(absl::StatusCode::kFailedPrecondition, "use", path_, "opened before the crash");
  }
  absl::Status CheckWritable(absl::string_view operation) GW_REQUIRES(state_->mu) {
    GW_RETURN_IF_ERROR(CheckAlive());
    if (writable_) return absl::OkStatus();
    return Fail(absl::StatusCode::kFailedPrecondition, operation, path_, "opened for reading");
  }

  const std::shared_ptr<SimState> state_;
  const std::shared_ptr<Node> node_;
  const std::string path_;
  const bool writable_;
  const uint64_t born_;
};

class SimFileLock final : public FileLock {
 public:
  SimFileLock(std::shared_ptr<SimState> state, std::shared_ptr<Node> node, uint64_t born)
      : state_(std::move(state)), node_(std::move(node)), born_(born) {}
  ~SimFileLock() override {
    MutexLock lock(state_->mu);
    if (born_ == state_->crash_count) node_->locked = false;
  }

 private:
  const std::shared_ptr<SimState> state_;
  const std::shared_ptr<Node> node_;
  const uint64_t born_;
};

}  // namespace
}  // namespace fs_internal

using fs_internal::Fail;
using fs_internal::Node;
using fs_internal::Place;

SimFileSystem::SimFileSystem() : state_(std::make_shared<fs_internal::SimState>()) {}
SimFileSystem::~SimFileSystem() = default;

void SimFileSystem::SetHook(Hook hook) {
  MutexLock lock(state_->mu);
  std::swap(state_->hook, hook);
}

void SimFileSystem::SetCapacityBytes(uint64_t capacity_bytes) {
  MutexLock lock(state_->mu);
  state_->capacity_bytes = capacity_bytes;
}

void SimFileSystem::Crash() { state_->Crash(nullptr); }
void SimFileSystem::CrashTorn(Rng& rng) { state_->Crash(&rng); }

absl::StatusOr<std::unique_ptr<File>> SimFileSystem::Open(const std::string& path, OpenMode mode) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kOpen, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(auto node, state_->FindOrCreateFile("open", path, mode));
  if (mode == OpenMode::kTruncate) GW_RETURN_IF_ERROR(state_->Resize(*node, path, 0));
  const uint64_t size_bytes = node->live.size();
  return std::make_unique<fs_internal::SimFile>(
      state_, std::move(node), path, mode != OpenMode::kRead, size_bytes, state_->crash_count);
}

absl::StatusOr<FileInfo> SimFileSystem::Stat(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kStat, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(const Place place, state_->Find("stat", path));
  return FileInfo{.is_directory = place.node->is_directory,
                  .size_bytes = place.node->live.size(),
                  .permissions = place.node->is_directory ? 0755u : 0644u,
                  .ours = true};
}

absl::StatusOr<std::vector<std::string>> SimFileSystem::List(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kList, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(const Place place, state_->Find("list", path));
  if (!place.node->is_directory) {
    return Fail(absl::StatusCode::kFailedPrecondition, "list", path, "not a directory");
  }
  std::vector<std::string> names;
  for (const auto& [name, node] : place.node->names) names.push_back(name);
  return names;
}

absl::Status SimFileSystem::MakeDirs(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kMakeDirs, path));
  MutexLock lock(state_->mu);
  std::string so_far = path.starts_with('/') ? "/" : ".";
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    so_far = JoinPath(so_far, part);
    GW_ASSIGN_OR_RETURN(const Place place, state_->Resolve("mkdir", so_far));
    if (place.node == nullptr) place.parent->names[place.name] = std::make_shared<Node>(true);
  }
  GW_ASSIGN_OR_RETURN(const Place place, state_->Find("mkdir", path));
  if (place.node->is_directory) return absl::OkStatus();
  return Fail(absl::StatusCode::kFailedPrecondition, "mkdir", path, "not a directory");
}

absl::Status SimFileSystem::Rename(const std::string& from, const std::string& to) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kRename, to));
  MutexLock lock(state_->mu);
  // As Linux: first both folders, then the names in them.
  GW_ASSIGN_OR_RETURN(const Place source, state_->Resolve("rename", from));
  GW_ASSIGN_OR_RETURN(const Place target, state_->Resolve("rename", to));
  GW_RETURN_IF_ERROR(state_->Find("rename", from).status());
  if (source.node == target.node) return absl::OkStatus();
  const auto refuse = [&](absl::StatusCode code, absl::string_view why) {
    return Fail(code, absl::StrCat("rename ", EscapedString(from), " to"), to, why);
  };
  if (source.parent == nullptr || target.parent == nullptr) {
    return refuse(absl::StatusCode::kFailedPrecondition, "the root can't be moved");
  }
  // Is the target below the source? Walk down from the source; folders have one parent.
  std::vector<const Node*> open = {source.node.get()};
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node == target.parent.get()) {
      return refuse(absl::StatusCode::kInvalidArgument, "a directory can't move into itself");
    }
    for (const auto& [name, child] : node->names) open.push_back(child.get());
  }
  if (target.node != nullptr) {
    if (target.node->is_directory != source.node->is_directory) {
      return refuse(absl::StatusCode::kFailedPrecondition,
                    target.node->is_directory ? "it is a directory" : "it is not a directory");
    }
    if (!target.node->names.empty()) {
      return refuse(absl::StatusCode::kFailedPrecondition, "the directory is not empty");
    }
    state_->used_bytes -= target.node->live.size();
    target.node->linked = false;
  }
  source.parent->names.erase(source.name);
  target.parent->names[target.name] = source.node;
  return absl::OkStatus();
}

absl::Status SimFileSystem::Remove(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kRemove, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(const Place place, state_->Find("remove", path));
  if (place.parent == nullptr || !place.node->names.empty()) {
    return Fail(absl::StatusCode::kFailedPrecondition, "remove", path,
                "the directory is not empty");
  }
  state_->used_bytes -= place.node->live.size();
  place.node->linked = false;
  place.parent->names.erase(place.name);
  return absl::OkStatus();
}

absl::Status SimFileSystem::SyncDir(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kSyncDir, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(const Place place, state_->Find("sync", path));
  if (!place.node->is_directory) {
    return Fail(absl::StatusCode::kFailedPrecondition, "sync", path, "not a directory");
  }
  place.node->synced_names = place.node->names;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> SimFileSystem::TryLock(const std::string& path) {
  GW_RETURN_IF_ERROR(state_->RunHook(FsOperation::kLock, path));
  MutexLock lock(state_->mu);
  GW_ASSIGN_OR_RETURN(auto node, state_->FindOrCreateFile("lock", path, OpenMode::kCreate));
  if (node->locked) {
    return Fail(absl::StatusCode::kUnavailable, "lock", path, "somebody else holds it");
  }
  node->locked = true;
  return std::make_unique<fs_internal::SimFileLock>(state_, std::move(node), state_->crash_count);
}

}  // namespace gradwire
