#include "rpc/transport/grpc/grpc_address.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {
namespace {

constexpr size_t kMaxAddressBytes = 300;  // a name has 253 at most

bool IsName(absl::string_view host) {
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '-' && c != '_') return false;
  }
  // gRPC takes "unix:5" for a path and "vsock:5" for a socket of another kind.
  return !host.empty() && host.front() != '-' && host != "unix" && host != "vsock";
}

bool IsIpv6(absl::string_view host) {
  for (const char c : host) {
    if (!absl::ascii_isxdigit(c) && c != ':' && c != '.') return false;
  }
  return host.find(':') != absl::string_view::npos;
}

bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (address.size() > kMaxAddressBytes || colon == absl::string_view::npos) return false;
  const absl::string_view host = address.substr(0, colon), port_text = address.substr(colon + 1);
  for (const char c : port_text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  uint32_t port = 0;
  if (port_text.size() > 5 || !absl::SimpleAtoi(port_text, &port) || port > 65535) return false;
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return brackets ? IsIpv6(host.substr(1, host.size() - 2)) : IsName(host);
}

}  // namespace

absl::Status CheckGrpcAddress(const std::string& address) {
  if (IsHostPort(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(address.substr(0, kMaxAddressBytes)),
                   "\" is not host:port (an IPv6 address goes in brackets: [::1]:7000)"));
}

}  // namespace gradwire::rpc
