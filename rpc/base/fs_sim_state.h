// The tree behind SimFileSystem: nodes with what is there and what was synced. Internal to
// fs_sim*.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/mutex.h"
#include "rpc/base/rng.h"

namespace gradwire::fs_internal {

// What a simulated file may reach: an offset that is a mistake must not take the memory.
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

absl::Status Fail(absl::StatusCode code, absl::string_view operation, absl::string_view path,
                  absl::string_view why);

struct Node {
  explicit Node(bool directory) : is_directory(directory) {}

  const bool is_directory;
  // A file's bytes as they are and as they were at the last sync; they differ in the dirty range
  // and in their sizes.
  std::string live, synced;
  uint64_t dirty_begin = ~uint64_t{0}, dirty_end = 0;
  // A folder's names, likewise.
  std::map<std::string, std::shared_ptr<Node>> names, synced_names;
  bool locked = false;
  // Has a name; what has none takes no room.
  bool linked = true;

  void MarkDirty(uint64_t begin, uint64_t end) {
    dirty_begin = std::min(dirty_begin, begin);
    dirty_end = std::max(dirty_end, end);
  }
  void Sync();
  // Falls back to what was synced, itself alone; what is synced afterwards is what is there.
  void Crash(Rng* torn);
};

// Where a path leads: the folder, the last name, and what bears it now (or null).
struct Place {
  std::shared_ptr<Node> parent;  // null for the root itself
  std::string name;
  std::shared_ptr<Node> node;
};

struct SimState {
  Mutex mu;
  std::shared_ptr<Node> root GW_GUARDED_BY(mu) = std::make_shared<Node>(true);
  SimFileSystem::Hook hook GW_GUARDED_BY(mu);
  uint64_t crash_count GW_GUARDED_BY(mu) = 0;
  uint64_t used_bytes GW_GUARDED_BY(mu) = 0;
  uint64_t capacity_bytes GW_GUARDED_BY(mu) = ~uint64_t{0};

  absl::Status RunHook(FsOperation operation, const std::string& path) GW_EXCLUDES(mu);
  absl::StatusOr<Place> Resolve(absl::string_view operation, const std::string& path)
      GW_REQUIRES(mu);
  // The same; what bears the name must exist.
  absl::StatusOr<Place> Find(absl::string_view operation, const std::string& path) GW_REQUIRES(mu);
  absl::StatusOr<std::shared_ptr<Node>> FindOrCreateFile(absl::string_view operation,
                                                         const std::string& path, OpenMode mode)
      GW_REQUIRES(mu);
  absl::Status Resize(Node& node, absl::string_view path, uint64_t size) GW_REQUIRES(mu);
  void Crash(Rng* torn) GW_EXCLUDES(mu);
};

}  // namespace gradwire::fs_internal
