// gradwire ps …, gradwire worker …: the programs of those names that belong to this one.
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "rpc/base/fs.h"
#include "rpc/base/status.h"
#include "worker/launch/program.h"
#include "worker/launch/subcommands.h"

namespace gradwire::launch {
namespace {

absl::StatusOr<std::string> OwnPath() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size < 0) return absl::ErrnoToStatus(errno, "asking where gradwire is");
  return std::string(path, static_cast<size_t>(size));
}

absl::Status Become(absl::string_view role, const std::vector<std::string>& arguments) {
  GW_ASSIGN_OR_RETURN(const std::string self, OwnPath());
  GW_ASSIGN_OR_RETURN(std::string path,
                      FindRoleProgram(std::string(role), self, FileSystem::Real()));
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(path.c_str(), pointers.data());
  return absl::ErrnoToStatus(errno, absl::StrCat("executing ", path));
}

}  // namespace

int BecomeRole(absl::string_view role, const std::vector<std::string>& arguments) {
  const absl::Status status = Become(role, arguments);
  const std::string text =
      absl::StrCat("gradwire ", role, ": ", absl::string_view(status.message()), "\n");
  fputs(text.c_str(), stderr);
  return 127;
}

}  // namespace gradwire::launch
