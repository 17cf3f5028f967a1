// "host:port" as users write it: IPv4, [IPv6], host names.
//
// Thread-safety: stateless. Resolves nothing: whether a name exists is found out by who dials.
// Errors:        INVALID_ARGUMENT quotes the text and says how to write it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {

struct HostPort {
  std::string host;   // without brackets; may be empty where the caller allows it
  uint16_t port = 0;  // 0: any free one (for listening)

  bool is_ipv6() const { return host.find(':') != std::string::npos; }
  // 0.0.0.0 or ::, which mean every interface and can't be dialled.
  bool is_any() const;
  std::string ToString() const;  // "[::1]:7000"

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// Longest text that is looked at: a host name has at most 253 characters.
inline constexpr size_t kMaxAddressBytes = 262;

// An IPv6 address must stand in brackets and may name a zone ("[fe80::1%eth0]:80"). A host of
// digits and dots alone must be an IPv4 address; a name consists of labels of [A-Za-z0-9_-].
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// The same for an address that others dial: port 0 and "every interface" are refused.
absl::StatusOr<HostPort> ParseDialAddress(absl::string_view text);

}  // namespace gradwire::rpc
