#include "rpc/cluster/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"

namespace gradwire::rpc {
namespace {

// Order of preference.
int Class(const InterfaceAddress& address) {
  if (absl::StrContains(address.host, "%")) return 2;
  return absl::StrContains(address.host, ":") ? 1 : 0;
}

std::string Listed(std::span<const InterfaceAddress> interfaces) {
  std::vector<std::string> all;
  for (const InterfaceAddress& a : interfaces)
    all.push_back(absl::StrCat(a.interface, " (", a.host, ")"));
  return all.empty() ? "none" : absl::StrJoin(all, ", ");
}

const InterfaceAddress* Find(absl::string_view name, std::span<const InterfaceAddress> interfaces) {
  for (const InterfaceAddress& address : interfaces) {
    if (address.interface == name) return &address;
  }
  return nullptr;
}

std::string Join(absl::string_view host, uint16_t port) {
  return HostPort{.host = std::string(host), .port = port}.ToString();
}

}  // namespace

std::vector<InterfaceAddress> SystemInterfaces() {
  std::vector<InterfaceAddress> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    InterfaceAddress address;
    address.interface = one->ifa_name;
    address.loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    char text[INET6_ADDRSTRLEN] = "";
    if (one->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
      address.host = text;
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
      address.host = text;
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) absl::StrAppend(&address.host, "%", one->ifa_name);
    } else {
      continue;
    }
    out.push_back(std::move(address));
  }
  ::freeifaddrs(all);
  // In the order of preference, otherwise as the system has them.
  std::vector<InterfaceAddress> ordered;
  for (int wanted : {0, 1, 2}) {
    for (const InterfaceAddress& address : out) {
      if (Class(address) == wanted) ordered.push_back(address);
    }
  }
  return ordered;
}

absl::StatusOr<std::string> ListenAddress(absl::string_view listen, absl::string_view interface,
                                          std::span<const InterfaceAddress> interfaces) {
  if (listen.empty()) listen = ":0";
  // An interface's name may look like no host name ("eth0.100@if2" never gets here: the system cuts
  // it), so the host is looked up before it is judged.
  const size_t colon = listen.rfind(':');
  const absl::string_view host = listen.substr(0, colon == absl::string_view::npos ? 0 : colon);
  const bool hostless = colon == 0;
  const InterfaceAddress* chosen = hostless ? nullptr : Find(host, interfaces);
  if (!interface.empty()) {
    if (!hostless && host != interface) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listen=", EscapedString(listen), " and --interface=", EscapedString(interface),
          " both choose an address; give --listen=:PORT with --interface, or --listen alone"));
    }
    chosen = Find(interface, interfaces);
    if (chosen == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("no interface ", EscapedString(interface),
                       " is up and has an address; there are: ", Listed(interfaces)));
    }
  }
  if (!hostless && chosen == nullptr) {
    GW_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(listen));
    return parsed.ToString();
  }
  // The port is judged together with a host that is right.
  GW_ASSIGN_OR_RETURN(const HostPort port,
                      ParseHostPort(absl::StrCat("localhost", listen.substr(colon))),
                      _ << "--listen=" << EscapedString(listen));
  return Join(chosen == nullptr ? "127.0.0.1" : chosen->host, port.port);
}

absl::StatusOr<std::string> AdvertisedAddress(absl::string_view bound, absl::string_view advertise,
                                              std::span<const InterfaceAddress> interfaces) {
  GW_ASSIGN_OR_RETURN(const HostPort at, ParseHostPort(bound));
  if (!advertise.empty()) {
    // A host alone takes the port of `bound`.
    const bool bracketed = advertise.front() == '[';
    const size_t colon = advertise.find(':', bracketed ? advertise.find(']') : 0);
    std::string text(advertise);
    if (colon == absl::string_view::npos) absl::StrAppend(&text, ":", at.port);
    GW_ASSIGN_OR_RETURN(const HostPort told, ParseDialAddress(text), _ << "--advertise");
    return told.ToString();
  }
  if (!at.is_any()) return at.ToString();
  std::vector<InterfaceAddress> candidates;
  for (const InterfaceAddress& address : interfaces) {
    if (address.loopback || Class(address) == 2) continue;
    if (!at.is_ipv6() && Class(address) != 0) continue;
    candidates.push_back(address);
  }
  // One machine often has one address of each family; the first family there is decides.
  if (!candidates.empty()) {
    const int best = Class(candidates.front());
    std::erase_if(candidates, [best](const InterfaceAddress& a) { return Class(a) != best; });
  }
  if (candidates.size() == 1) return Join(candidates.front().host, at.port);
  return absl::FailedPreconditionError(absl::StrCat(
      "listening on every interface (", bound, "), and ",
      candidates.empty()
          ? "none has an address that others reach"
          : absl::StrCat("several addresses could be told to others: ", Listed(candidates)),
      "; choose one with --advertise=HOST"));
}

}  // namespace gradwire::rpc
