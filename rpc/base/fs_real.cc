#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/fault.h"
#include "rpc/base/fs.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/base/unique_fd.h"

namespace gradwire {
namespace {

// One system call moves at most this much; larger transfers go in pieces.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;

absl::Status ErrnoStatus(absl::string_view operation, const std::string& path, int error) {
  const std::string what = absl::StrCat(operation, " ", EscapedString(path));
  if (error == EIO) return absl::DataLossError(absl::StrCat(what, ": the disk reports an error"));
  return absl::ErrnoToStatus(error, what);
}

absl::Status CheckPath(absl::string_view operation, const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": \"", EscapedString(path), "\" is no path"));
  }
  return absl::OkStatus();
}

// Calls a function that returns -1 with errno EINTR again.
template <class Fn>
auto Retry(Fn fn) {
  while (true) {
    const auto result = fn();
    if (result != -1 || errno != EINTR) return result;
  }
}

class RealFile final : public File {
 public:
  RealFile(UniqueFd fd, std::string path, uint64_t size_bytes)
      : File(size_bytes), fd_(std::move(fd)), path_(std::move(path)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.read"));
    GW_RETURN_IF_ERROR(CheckOffset("read", offset, out.size()));
    size_t done = 0;
    while (done < out.size()) {
      const size_t piece = std::min(out.size() - done, kMaxTransferBytes);
      const ssize_t n = Retry([&] {
        return ::pread(fd_.get(), out.data() + done, piece, static_cast<off_t>(offset + done));
      });
      if (n < 0) return ErrnoStatus("read", path_, errno);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  absl::Status WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.write"));
    GW_RETURN_IF_ERROR(CheckOffset("write", offset, bytes.size()));
    size_t done = 0;
    while (done < bytes.size()) {
      const size_t piece = std::min(bytes.size() - done, kMaxTransferBytes);
      const ssize_t n = Retry([&] {
        return ::pwrite(fd_.get(), bytes.data() + done, piece, static_cast<off_t>(offset + done));
      });
      if (n < 0) return ErrnoStatus("write", path_, errno);
      if (n == 0) return ErrnoStatus("write", path_, EIO);
      done += static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size() override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus("stat", path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }

  absl::Status Truncate(uint64_t size_bytes) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.truncate"));
    GW_RETURN_IF_ERROR(CheckOffset("truncate", size_bytes, 0));
    if (Retry([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)); }) != 0) {
      return ErrnoStatus("truncate", path_, errno);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.sync"));
    // fdatasync writes the size too, which is all of the metadata that reading back needs.
    if (Retry([&] { return ::fdatasync(fd_.get()); }) != 0) {
      return ErrnoStatus("sync", path_, errno);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckOffset(absl::string_view operation, uint64_t offset, uint64_t size) {
    constexpr uint64_t kMax = std::numeric_limits<off_t>::max();
    if (offset > kMax || size > kMax - offset) {
      return absl::InvalidArgumentError(
          absl::StrCat(operation, " ", EscapedString(path_), ": beyond the largest offset"));
    }
    return absl::OkStatus();
  }

  UniqueFd fd_;
  const std::string path_;
};

class RealFileLock final : public FileLock {
 public:
  explicit RealFileLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;  // closing it unlocks
};

int OpenFlags(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return O_RDONLY;
    case OpenMode::kReadWrite:
      return O_RDWR;
    case OpenMode::kCreate:
    case OpenMode::kTruncate:  // emptied once it is known to be a regular file
      return O_RDWR | O_CREAT;
    case OpenMode::kCreateNew:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

// O_NONBLOCK: opening a pipe must not wait for its other end. It means nothing to regular files.
absl::StatusOr<UniqueFd> OpenRegular(absl::string_view operation, const std::string& path,
                                     int flags, uint64_t& size_bytes) {
  GW_RETURN_IF_ERROR(CheckPath(operation, path));
  UniqueFd fd(
      Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644); }));
  if (!fd) return ErrnoStatus(operation, path, errno);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(operation, path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(operation, " ", EscapedString(path), ": ",
                     S_ISDIR(info.st_mode) ? "it is a directory" : "it is not a regular file"));
  }
  size_bytes = static_cast<uint64_t>(info.st_size);
  return fd;
}

class RealFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.open"));
    uint64_t size_bytes = 0;
    GW_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular("open", path, OpenFlags(mode), size_bytes));
    auto file = std::make_unique<RealFile>(std::move(fd), path, size_bytes);
    if (mode == OpenMode::kTruncate) GW_RETURN_IF_ERROR(file->TruncateAppend(0));
    return file;
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    GW_RETURN_IF_ERROR(CheckPath("stat", path));
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("stat", path, errno);
    const bool is_directory = S_ISDIR(info.st_mode);
    return FileInfo{.is_directory = is_directory,
                    .size_bytes = is_directory ? 0 : static_cast<uint64_t>(info.st_size),
                    .permissions = static_cast<uint32_t>(info.st_mode & 07777),
                    .ours = info.st_uid == ::geteuid()};
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    GW_RETURN_IF_ERROR(CheckPath("list", path));
    const auto close = [](DIR* dir) { ::closedir(dir); };
    const std::unique_ptr<DIR, decltype(close)> dir(::opendir(path.c_str()), close);
    if (dir == nullptr) return ErrnoStatus("list", path, errno);
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) break;
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return ErrnoStatus("list", path, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status MakeDirs(const std::string& path) override {
    GW_RETURN_IF_ERROR(CheckPath("mkdir", path));
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string part = path.substr(0, end);
      if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
        return ErrnoStatus("mkdir", part, errno);
      }
      if (end == std::string::npos) break;
    }
    GW_ASSIGN_OR_RETURN(const FileInfo info, Stat(path));
    if (!info.is_directory) return ErrnoStatus("mkdir", path, ENOTDIR);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.rename"));
    GW_RETURN_IF_ERROR(CheckPath("rename", from));
    GW_RETURN_IF_ERROR(CheckPath("rename", to));
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return ErrnoStatus(absl::StrCat("rename ", EscapedString(from), " to"), to, errno);
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.remove"));
    GW_RETURN_IF_ERROR(CheckPath("remove", path));
    if (std::remove(path.c_str()) != 0) return ErrnoStatus("remove", path, errno);
    return absl::OkStatus();
  }

  absl::Status SyncDir(const std::string& path) override {
    GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.sync_dir"));
    GW_RETURN_IF_ERROR(CheckPath("sync", path));
    const UniqueFd fd(
        Retry([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!fd || Retry([&] { return ::fsync(fd.get()); }) != 0) {
      return ErrnoStatus("sync", path, errno);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileLock>> TryLock(const std::string& path) override {
    uint64_t size_bytes = 0;
    GW_ASSIGN_OR_RETURN(UniqueFd fd, OpenRegular("lock", path, O_RDWR | O_CREAT, size_bytes));
    if (Retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus("lock", path, errno);
      return absl::UnavailableError(
          absl::StrCat("lock ", EscapedString(path), ": somebody else holds it"));
    }
    return std::make_unique<RealFileLock>(std::move(fd));
  }
};

}  // namespace

FileSystem& FileSystem::Real() {
  static auto* const real = new RealFileSystem;
  return *real;
}

}  // namespace gradwire
