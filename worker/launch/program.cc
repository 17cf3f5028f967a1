#include "worker/launch/program.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::launch {
namespace {

absl::Status CheckProgram(const std::string& path, FileSystem& fs) {
  GW_ASSIGN_OR_RETURN(const FileInfo info, fs.Stat(path));
  if (info.is_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat(EscapedString(path), " is a folder, not a program"));
  }
  if (access(path.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        EscapedString(path), " is not executable; make it so (chmod +x) or name another program"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name, const Environment& environment,
                                        FileSystem& fs) {
  if (name.empty()) return absl::InvalidArgumentError("the program's name is empty");
  if (name.find('/') != std::string::npos) {
    absl::Status status = CheckProgram(name, fs);
    if (status.ok()) return name;
    if (!absl::IsNotFound(status)) return status;
    return absl::NotFoundError(absl::StrCat("there is no program ", EscapedString(name),
                                            "; build it first, or check the path"));
  }
  absl::Status best = absl::NotFoundError(absl::StrCat(
      "no program ", EscapedString(name), " in PATH; give its path, as ./", EscapedString(name)));
  const std::string path = environment("PATH").value_or("");
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string candidate = JoinPath(folder, name);
    const absl::Status status = CheckProgram(candidate, fs);
    if (status.ok()) return candidate;
    if (absl::IsNotFound(best) && absl::IsFailedPrecondition(status)) best = status;
  }
  return best;
}

absl::StatusOr<std::string> FindRoleProgram(const std::string& role, const std::string& self,
                                            FileSystem& fs) {
  const std::string folder = ParentPath(self);
  const std::string installed = JoinPath(JoinPath(ParentPath(folder), "libexec/gradwire"), role);
  const std::string built = JoinPath(folder, role);
  for (const std::string& path : {installed, built}) {
    absl::Status status = CheckProgram(path, fs);
    if (status.ok()) return path;
    if (absl::IsFailedPrecondition(status)) return status;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no program ", role, " at ", installed, " nor at ", built,
                   "; build it (cmake --build … --target ", role, ") or install Gradwire again"));
}

}  // namespace gradwire::launch
