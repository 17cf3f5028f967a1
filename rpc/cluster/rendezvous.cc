#include "rpc/cluster/rendezvous.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"

namespace gradwire::rpc {

absl::Status CheckMemberName(absl::string_view name) {
  bool good = !name.empty() && name.size() <= 128;
  for (const unsigned char c : name) {
    good = good && (absl::ascii_isalnum(c) || absl::string_view("_.-/~:").find(
                                                  static_cast<char>(c)) != absl::string_view::npos);
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", EscapedString(name.substr(0, 140)),
                   "\" is no agent name; it has 1 to 128 characters of [A-Za-z0-9_.-/~:]"));
}

absl::Status CheckRank(int rank) {
  if (rank >= 0 && rank < kMaxMembers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", rank, " is not within 0 to ", kMaxMembers - 1));
}

absl::Status CheckJoinRequest(const JoinRequest& request) {
  GW_RETURN_IF_ERROR(CheckMemberName(request.name));
  if (!request.address.empty()) {
    GW_RETURN_IF_ERROR(ParseDialAddress(request.address).status(), _ << request.name);
  }
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(request.name, ": ", why));
  };
  if (request.instance == 0) return bad("the instance id is missing");
  if (request.world_size < 0 || request.world_size > kMaxMembers) {
    return bad(
        absl::StrCat("world size ", request.world_size, " is not within 0 to ", kMaxMembers));
  }
  if (request.rank < kNoRank || (request.rank >= 0 && request.rank >= request.world_size)) {
    return bad(absl::StrCat("rank ", request.rank, " is not in a world of ", request.world_size));
  }
  if (request.incarnation.value > UINT64_MAX - (uint64_t{1} << 32)) {
    return bad("the incarnation leaves no room for later lives");
  }
  if (request.expected.empty()) return absl::OkStatus();
  if (request.expected.size() != static_cast<size_t>(request.world_size)) {
    return bad(absl::StrCat(request.expected.size(), " names are expected in a world of ",
                            request.world_size));
  }
  std::set<absl::string_view> names;
  for (const std::string& name : request.expected) {
    GW_RETURN_IF_ERROR(CheckMemberName(name), _ << request.name << ": expected names");
    if (!names.insert(name).second) return bad(absl::StrCat(name, " is expected twice"));
  }
  if (!names.contains(request.name)) {
    return bad("is not among the expected names");
  }
  return absl::OkStatus();
}

}  // namespace gradwire::rpc
