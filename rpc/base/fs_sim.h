// The simulated twin of the file system: in memory, loses on a crash what was not synced, fails on
// demand.
//
//   SimFileSystem fs;
//   ... run until a chosen point ...
//   fs.Crash();      // the view falls back to what was synced; open handles and locks are gone
//   ... recover from `fs`, compare with what was acknowledged ...
//
// Model:         a file keeps its bytes as of the last Sync(), a folder its names as of its last
//                SyncDir(), each on its own: stricter than a journaling file system, as POSIX
//                allows. CrashTorn() also lets a random part of the rest survive: 512-byte sectors
//                of a file, all names of a folder or none.
// Paths:         "a", "/a", "./a" and "b/../a" are the same; the root always exists.
// Thread-safety: all methods thread-safe; the hook runs under no lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/fs.h"
#include "rpc/base/mutex.h"
#include "rpc/base/rng.h"

namespace gradwire {

enum class FsOperation {
  kOpen,
  kRead,
  kWrite,
  kTruncate,
  kSync,
  kStat,
  kList,
  kMakeDirs,
  kRename,
  kRemove,
  kSyncDir,
  kLock,
};

namespace fs_internal {
struct SimState;
}  // namespace fs_internal

class SimFileSystem final : public FileSystem {
 public:
  // Runs before each operation; anything but OK is its result, and nothing happens.
  using Hook = std::function<absl::Status(FsOperation operation, const std::string& path)>;

  SimFileSystem();
  ~SimFileSystem() override;

  void SetHook(Hook hook);
  // Bytes that all files may have together; a write beyond it gets as far as there is room.
  // Default: unlimited.
  void SetCapacityBytes(uint64_t capacity_bytes);

  // The machine stops and starts again. Every open File and FileLock is dead: its methods give
  // FAILED_PRECONDITION.
  void Crash();
  void CrashTorn(Rng& rng);

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeDirs(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncDir(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const std::string& path) override;

 private:
  std::shared_ptr<fs_internal::SimState> state_;
};

}  // namespace gradwire
