#include "rpc/base/fs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rpc/base/fault.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {

// ReadAll grows its buffer by what arrives, whatever size the file claims to have.
constexpr size_t kReadPieceBytes = size_t{256} << 10;

}  // namespace

absl::Status File::Append(std::span<const std::byte> bytes) {
  GW_RETURN_IF_ERROR(WriteAt(append_offset_, bytes));
  append_offset_ += bytes.size();
  return absl::OkStatus();
}

absl::Status File::Append(absl::string_view text) {
  return Append(std::as_bytes(std::span(text.data(), text.size())));
}

absl::Status File::TruncateAppend(uint64_t size_bytes) {
  GW_RETURN_IF_ERROR(Truncate(size_bytes));
  append_offset_ = size_bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::string> FileSystem::ReadAll(const std::string& path, size_t max_bytes) {
  GW_ASSIGN_OR_RETURN(const auto file, Open(path, OpenMode::kRead));
  std::string contents;
  while (true) {
    const size_t before = contents.size();
    // One byte more than allowed shows that there is more.
    const size_t piece = std::min(kReadPieceBytes, max_bytes - before) + 1;
    contents.resize(before + piece);
    GW_ASSIGN_OR_RETURN(
        const size_t read,
        file->ReadAt(before, std::as_writable_bytes(std::span(contents)).subspan(before)));
    contents.resize(before + read);
    if (contents.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("read ", path, ": the file has more than ", max_bytes, " bytes"));
    }
    if (read < piece) return contents;
  }
}

absl::Status FileSystem::WriteAtomically(const std::string& path, absl::string_view contents) {
  return WriteAtomically(path, [&](File& file) { return file.Append(contents); });
}

absl::Status FileSystem::WriteAtomically(const std::string& path,
                                         const std::function<absl::Status(File&)>& write) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  {
    GW_ASSIGN_OR_RETURN(const auto file, Open(temporary, OpenMode::kTruncate));
    absl::Status written = write(*file);
    if (written.ok()) written = file->Sync();
    if (!written.ok()) {
      Remove(temporary).IgnoreError();
      return written;
    }
  }
  GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.before_rename"));
  GW_RETURN_IF_ERROR(Rename(temporary, path));
  GW_RETURN_IF_ERROR(GW_FAULT_POINT("fs.before_sync_dir"));
  return SyncDir(ParentPath(path));
}

std::string ParentPath(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  if (folder.empty()) return std::string(name);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", name);
}

}  // namespace gradwire
