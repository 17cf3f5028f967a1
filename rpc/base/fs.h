// The file system as an injected seam: what durable storage and file rendezvous need, no more.
//
// Twins:         FileSystem::Real() here; SimFileSystem in fs_sim.h (in memory; a crash falls back
//                to what was synced; errors on demand).
// Durability:    bytes survive a crash after File::Sync(); a name (create, rename, remove, mkdir)
//                after SyncDir() of the folder that holds it. After a Sync() that failed the bytes
//                count as lost: write them anew elsewhere, don't sync again.
// Thread-safety: FileSystem's methods thread-safe. A File: ReadAt and Size from any thread, one
//                writer at a time.
// Blocking:      everything may wait for the disk. Nothing waits for a peer: pipes, sockets and
//                devices are refused, locks are tried.
// Errors:        NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED; RESOURCE_EXHAUSTED no space, no
//                descriptors, or larger than asked for; FAILED_PRECONDITION a folder where a file
//                must be or the reverse, a folder that isn't empty; INVALID_ARGUMENT a path that
//                can't be one; DATA_LOSS the disk failed. Messages name operation and path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire {

enum class OpenMode {
  kRead,       // must exist; read only
  kReadWrite,  // must exist
  kCreate,     // made where missing
  kCreateNew,  // must not exist
  kTruncate,   // made where missing, else emptied
};

struct FileInfo {
  bool is_directory = false;
  uint64_t size_bytes = 0;   // 0 for folders
  uint32_t permissions = 0;  // 0600 and the like
  bool ours = true;          // belongs to the user that this process runs as
};

// An open regular file. Closed when destroyed.
class File {
 public:
  virtual ~File() = default;

  // Reads at `offset` until `out` is full or the file ends; how many bytes were read.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) = 0;
  // Writes all of `bytes`. On error a part of them may be there.
  virtual absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual absl::StatusOr<uint64_t> Size() = 0;
  virtual absl::Status Truncate(uint64_t size_bytes) = 0;
  // What was written, and the size, survive a crash from now on.
  virtual absl::Status Sync() = 0;

  // Writes behind the end as this handle knows it: its size when opened, moved by Append and
  // Truncate. After an error the next Append starts at the same place. One appending handle a file.
  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status Append(absl::string_view text);
  // Cuts the file to `size_bytes`; Append goes on there.
  absl::Status TruncateAppend(uint64_t size_bytes);
  uint64_t append_offset() const { return append_offset_; }

 protected:
  explicit File(uint64_t append_offset) : append_offset_(append_offset) {}

 private:
  uint64_t append_offset_;
};

// Held until destroyed, or until the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // Names in a folder, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Makes a folder and those above it; OK where it exists.
  virtual absl::Status MakeDirs(const std::string& path) = 0;
  // Puts `from` in the place of `to` in one step: whoever opens `to` sees the old or the new.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty folder.
  virtual absl::Status Remove(const std::string& path) = 0;
  virtual absl::Status SyncDir(const std::string& path) = 0;
  // Locks the file at `path`, made where missing, against all other holders (advisory).
  // UNAVAILABLE: held by somebody. Don't remove lock files.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const std::string& path) = 0;

  // The whole file; RESOURCE_EXHAUSTED when it has more than `max_bytes`.
  absl::StatusOr<std::string> ReadAll(const std::string& path, size_t max_bytes);
  // Puts a file with `contents` at `path`, durably and in one step, by way of `path`.tmp in the
  // same folder. One writer a path at a time. After an error what was at `path` is still there.
  absl::Status WriteAtomically(const std::string& path, absl::string_view contents);
  // The same for more than fits into memory: `write` appends to the empty `path`.tmp. Its error
  // goes to the caller; then, as when the disk is full, `path`.tmp is removed to free the space.
  absl::Status WriteAtomically(const std::string& path,
                               const std::function<absl::Status(File&)>& write);

  static FileSystem& Real();
};

// The folder that holds `path`: "a/b" -> "a", "a" -> ".", "/a" -> "/".
std::string ParentPath(absl::string_view path);
std::string JoinPath(absl::string_view folder, absl::string_view name);

}  // namespace gradwire
