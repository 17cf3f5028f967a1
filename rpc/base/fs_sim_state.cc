#include "rpc/base/fs_sim_state.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::fs_internal {
namespace {

constexpr uint64_t kSectorBytes = 512;
// As on Linux.
constexpr size_t kMaxNameBytes = 255;

}  // namespace

absl::Status Fail(absl::StatusCode code, absl::string_view operation, absl::string_view path,
                  absl::string_view why) {
  return absl::Status(code, absl::StrCat(operation, " ", EscapedString(path), ": ", why));
}

void Node::Sync() {
  synced.resize(live.size());
  const uint64_t end = std::min<uint64_t>(dirty_end, live.size());
  if (dirty_begin < end) live.copy(&synced[dirty_begin], end - dirty_begin, dirty_begin);
  dirty_begin = ~uint64_t{0};
  dirty_end = 0;
}

void Node::Crash(Rng* torn) {
  locked = false;
  if (is_directory) {
    if (torn != nullptr && torn->Chance(0.5)) synced_names = names;
    names = synced_names;
    return;
  }
  if (torn != nullptr) {
    const uint64_t smaller = std::min(live.size(), synced.size());
    const uint64_t larger = std::max(live.size(), synced.size());
    const uint64_t sizes[] = {live.size(), synced.size(),
                              smaller + torn->Below(larger - smaller + 1)};
    synced.resize(sizes[torn->Below(3)]);
    const uint64_t end = std::min<uint64_t>({dirty_end, live.size(), synced.size()});
    for (uint64_t at = dirty_begin / kSectorBytes * kSectorBytes; at < end; at += kSectorBytes) {
      if (torn->Chance(0.5)) live.copy(&synced[at], std::min(kSectorBytes, end - at), at);
    }
  }
  live = synced;
  dirty_begin = ~uint64_t{0};
  dirty_end = 0;
}

absl::Status SimState::RunHook(FsOperation operation, const std::string& path) {
  SimFileSystem::Hook copy;
  {
    MutexLock lock(mu);
    copy = hook;
  }
  return copy != nullptr ? copy(operation, path) : absl::OkStatus();
}

absl::StatusOr<Place> SimState::Resolve(absl::string_view operation, const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Fail(absl::StatusCode::kInvalidArgument, operation, path, "no path");
  }
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part != "..") {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  Place place{nullptr, "", root};
  for (const absl::string_view part : parts) {
    if (place.node == nullptr) {
      return Fail(absl::StatusCode::kNotFound, operation, path, "no such directory");
    }
    if (!place.node->is_directory) {
      return Fail(absl::StatusCode::kFailedPrecondition, operation, path, "not a directory");
    }
    if (part.size() > kMaxNameBytes) {
      return Fail(absl::StatusCode::kInvalidArgument, operation, path, "the name is too long");
    }
    place.parent = std::move(place.node);
    place.name = std::string(part);
    const auto found = place.parent->names.find(place.name);
    place.node = found == place.parent->names.end() ? nullptr : found->second;
  }
  return place;
}

absl::StatusOr<Place> SimState::Find(absl::string_view operation, const std::string& path) {
  GW_ASSIGN_OR_RETURN(Place place, Resolve(operation, path));
  if (place.node == nullptr) {
    return Fail(absl::StatusCode::kNotFound, operation, path, "no such file or directory");
  }
  return place;
}

absl::StatusOr<std::shared_ptr<Node>> SimState::FindOrCreateFile(absl::string_view operation,
                                                                 const std::string& path,
                                                                 OpenMode mode) {
  GW_ASSIGN_OR_RETURN(Place place, Resolve(operation, path));
  if (place.node == nullptr) {
    if (mode == OpenMode::kRead || mode == OpenMode::kReadWrite) {
      return Fail(absl::StatusCode::kNotFound, operation, path, "no such file");
    }
    place.node = std::make_shared<Node>(false);
    place.parent->names[place.name] = place.node;
    return place.node;
  }
  if (mode == OpenMode::kCreateNew) {
    return Fail(absl::StatusCode::kAlreadyExists, operation, path, "it exists");
  }
  if (place.node->is_directory) {
    return Fail(absl::StatusCode::kFailedPrecondition, operation, path, "it is a directory");
  }
  return place.node;
}

absl::Status SimState::Resize(Node& node, absl::string_view path, uint64_t size) {
  if (size > kMaxFileBytes) {
    return Fail(absl::StatusCode::kResourceExhausted, "write", path, "file too large");
  }
  const uint64_t before = node.live.size();
  if (node.linked && size > before &&
      size - before > capacity_bytes - std::min(used_bytes, capacity_bytes)) {
    return Fail(absl::StatusCode::kResourceExhausted, "write", path, "no space left");
  }
  node.live.resize(size);
  node.MarkDirty(std::min(before, size), std::max(before, size));
  if (node.linked) used_bytes = used_bytes + size - before;
  return absl::OkStatus();
}

void SimState::Crash(Rng* torn) {
  MutexLock lock(mu);
  ++crash_count;
  used_bytes = 0;
  std::set<const Node*> seen = {root.get()};
  std::vector<Node*> open = {root.get()};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    node->Crash(torn);
    node->linked = true;
    used_bytes += node->live.size();
    for (auto entry = node->names.begin(); entry != node->names.end();) {
      Node* child = entry->second.get();
      if (seen.insert(child).second) {
        open.push_back(child);
      } else if (child->is_directory) {
        // Moved, and only one of the two folders was synced: a check of the disk would give it one
        // parent. (A file may have two names.)
        entry = node->names.erase(entry);
        continue;
      }
      ++entry;
    }
    node->synced_names = node->names;
  }
}

}  // namespace gradwire::fs_internal
