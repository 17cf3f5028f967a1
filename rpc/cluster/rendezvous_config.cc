#include "rpc/cluster/rendezvous_config.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"
#include "rpc/cluster/static_store.h"

namespace gradwire::rpc {

absl::StatusOr<RendezvousConfig> ParseRendezvous(absl::string_view text) {
  RendezvousConfig out;
  if (text.empty()) return out;
  const std::string shown = absl::StrCat("rendezvous \"", EscapedString(text.substr(0, 80)), "\"");
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        shown, ": ", why, "; write tcp://host:port, file:///folder or static:name=host:port,…"));
  };
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "tcp://")) {
    // A slash at the end is how URLs are often written.
    absl::ConsumeSuffix(&rest, "/");
    GW_ASSIGN_OR_RETURN(const HostPort address, ParseDialAddress(rest), _ << shown);
    out.kind = RendezvousKind::kTcp;
    out.address = address.ToString();
    return out;
  }
  if (absl::ConsumePrefix(&rest, "file://")) {
    if (rest.empty() || rest.front() != '/') {
      return bad("the folder must be an absolute path, with three slashes: file:///shared/job7");
    }
    const auto control = [](unsigned char c) { return absl::ascii_iscntrl(c); };
    if (rest.size() > 4000 || std::any_of(rest.begin(), rest.end(), control)) {
      return bad("the folder's path is too long or has control characters");
    }
    while (rest.size() > 1 && absl::ConsumeSuffix(&rest, "/")) {
    }
    if (rest == "/") return bad("the root is no folder for a rendezvous");
    out.kind = RendezvousKind::kFile;
    out.folder = std::string(rest);
    return out;
  }
  if (absl::ConsumePrefix(&rest, "static:")) {
    GW_ASSIGN_OR_RETURN(out.members, ParseMembers(rest), _ << shown);
    if (out.members.empty()) return bad("the list is empty");
    out.kind = RendezvousKind::kStatic;
    return out;
  }
  return bad("is of no known kind");
}

}  // namespace gradwire::rpc
