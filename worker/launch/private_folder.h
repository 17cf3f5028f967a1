// A folder that only this user can enter, with the job token in it; removed with its object.
//
// Thread-safety: none.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "rpc/base/options.h"
#include "rpc/base/rng.h"
#include "worker/launch/guard.h"

namespace gradwire::launch {

class PrivateFolder {
 public:
  // Below TMPDIR, or /tmp. The guard knows of it before it is there.
  static absl::StatusOr<PrivateFolder> Make(const Environment& environment, Rng& rng, Guard& guard);
  PrivateFolder(PrivateFolder&& other) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  // Removes the folder and the files in it.
  ~PrivateFolder();

  const std::string& path() const { return path_; }
  // Writes a fresh token into a file that only this user can read; its path.
  absl::StatusOr<std::string> WriteToken(Rng& rng);

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace gradwire::launch
