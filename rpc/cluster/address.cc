#include "rpc/cluster/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", EscapedString(text.substr(0, 80)), "\": ", why));
}

bool IsIpv4(const std::string& host) {
  in_addr v4;
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1;
}

// With an optional zone.
bool IsIpv6(const std::string& host) {
  const size_t percent = host.find('%');
  in6_addr v6;
  if (::inet_pton(AF_INET6, host.substr(0, percent).c_str(), &v6) != 1) return false;
  if (percent == std::string::npos) return true;
  const std::string zone = host.substr(percent + 1);
  return !zone.empty() && std::all_of(zone.begin(), zone.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

bool IsName(absl::string_view host) {
  if (host.size() > 253) return false;
  for (const absl::string_view label : absl::StrSplit(host, '.')) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
      return false;
    }
    for (const unsigned char c : label) {
      if (!absl::ascii_isalnum(c) && c != '-' && c != '_') return false;
    }
  }
  return true;
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view text, absl::string_view port) {
  if (port.empty()) return Bad(text, "has no port; write host:port");
  uint32_t value = 0;
  for (const unsigned char c : port) {
    if (!absl::ascii_isdigit(c)) return Bad(text, "the port is not a number; write host:port");
    value = value * 10 + (c - '0');
    if (value > 65535) return Bad(text, "the port is above 65535");
  }
  return static_cast<uint16_t>(value);
}

}  // namespace

bool HostPort::is_any() const {
  if (host == "0.0.0.0") return true;
  in6_addr v6;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string HostPort::ToString() const {
  return is_ipv6() ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  if (text.size() > kMaxAddressBytes) return Bad(text, "is too long");
  HostPort out;
  absl::string_view port;
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) return Bad(text, "the bracket isn't closed");
    out.host = std::string(text.substr(1, close - 1));
    if (!IsIpv6(out.host)) return Bad(text, "what stands in the brackets is no IPv6 address");
    const absl::string_view rest = text.substr(close + 1);
    if (rest.empty()) return Bad(text, "has no port; write [address]:port");
    if (rest.front() != ':') return Bad(text, "write [address]:port");
    port = rest.substr(1);
  } else {
    const size_t colon = text.find(':');
    if (colon == absl::string_view::npos) return Bad(text, "has no port; write host:port");
    if (text.find(':', colon + 1) != absl::string_view::npos) {
      return Bad(text, "an IPv6 address stands in brackets: [::1]:7000");
    }
    out.host = std::string(text.substr(0, colon));
    port = text.substr(colon + 1);
    if (out.host.empty()) return Bad(text, "has no host; 0.0.0.0 or [::] means every interface");
    if (out.host.find_first_not_of("0123456789.") == std::string::npos) {
      if (!IsIpv4(out.host)) return Bad(text, "is no IPv4 address");
    } else if (!IsName(out.host)) {
      return Bad(text, "is neither an IPv4 address, nor [IPv6], nor a host name");
    }
  }
  GW_ASSIGN_OR_RETURN(out.port, ParsePort(text, port));
  return out;
}

absl::StatusOr<HostPort> ParseDialAddress(absl::string_view text) {
  GW_ASSIGN_OR_RETURN(HostPort out, ParseHostPort(text));
  if (out.port == 0) return Bad(text, "port 0 can be listened on, not dialled");
  if (out.is_any()) {
    return Bad(text,
               "means every interface and can't be dialled; give an address with --advertise");
  }
  return out;
}

}  // namespace gradwire::rpc
