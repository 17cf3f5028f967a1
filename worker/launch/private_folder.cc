#include "worker/launch/private_folder.h"

#include <errno.h>
#include <sys/stat.h>

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/fs.h"
#include "rpc/base/log.h"
#include "rpc/base/secret.h"
#include "rpc/base/status.h"

namespace gradwire::launch {

constexpr size_t kTokenBytes = 32;

absl::StatusOr<PrivateFolder> PrivateFolder::Make(const Environment& environment, Rng& rng,
                                                  Guard& guard) {
  std::string base = environment("TMPDIR").value_or("");
  if (base.empty() || base[0] != '/' || base.find('\n') != std::string::npos) base = "/tmp";
  std::string path =
      JoinPath(base, absl::StrCat("gradwire-", absl::Hex(rng.Next(), absl::kZeroPad16)));
  guard.AddFolder(path);
  if (mkdir(path.c_str(), 0700) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("making a folder for the job token in ", EscapedString(base),
                            " (set TMPDIR to one that can be written)"));
  }
  return PrivateFolder(std::move(path));
}

PrivateFolder::PrivateFolder(PrivateFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

PrivateFolder::~PrivateFolder() {
  if (path_.empty()) return;
  FileSystem& fs = FileSystem::Real();
  if (const auto names = fs.List(path_); names.ok()) {
    for (const std::string& name : *names) (void)fs.Remove(JoinPath(path_, name));
  }
  if (const absl::Status removed = fs.Remove(path_); !removed.ok()) {
    GW_LOG(WARNING) << "the folder of the job token is left" << Kv("why", removed.ToString());
  }
}

absl::StatusOr<std::string> PrivateFolder::WriteToken(Rng& rng) {
  std::array<std::byte, kTokenBytes> bytes;
  rng.Fill(bytes);
  const Secret token(absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  std::string path = JoinPath(path_, "token");
  FileSystem& fs = FileSystem::Real();
  // Empty until nobody else can read it; nobody can reach it in this folder anyway.
  GW_ASSIGN_OR_RETURN(const auto file, fs.Open(path, OpenMode::kCreateNew));
  if (chmod(path.c_str(), 0600) != 0) return absl::ErrnoToStatus(errno, "protecting the job token");
  GW_RETURN_IF_ERROR(file->Append(token.Reveal()), _ << "writing the job token");
  return path;
}

}  // namespace gradwire::launch
