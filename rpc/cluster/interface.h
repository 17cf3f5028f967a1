// Which address of this machine to listen on, and which one to tell others.
//
// Thread-safety: stateless.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// One address of one interface.
struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string host;       // "10.0.0.5", "fd00::5"; link-local ones carry their zone
  bool loopback = false;
};

// Of the interfaces that are up, IPv4 before IPv6 before link-local. Empty if the system doesn't
// say.
std::vector<InterfaceAddress> SystemInterfaces();

// What to listen on. `listen` is "host:port", where host may be an interface's name ("eth0:0"), or
// ":port"; `interface` (--interface) may name the interface instead. "" and ":port" without an
// interface mean loopback. INVALID_ARGUMENT: both choose an address; NOT_FOUND: no such interface,
// with those there are.
absl::StatusOr<std::string> ListenAddress(absl::string_view listen, absl::string_view interface,
                                          std::span<const InterfaceAddress> interfaces);

// What to tell others, who then dial it. `bound` is where the transport really listens; `advertise`
// (--advertise) is "host:port" or "host" (then with the port of `bound`); "" means `bound`, or, if
// that is every interface, the one address that is not loopback. FAILED_PRECONDITION: there are
// several or none: choose.
absl::StatusOr<std::string> AdvertisedAddress(absl::string_view bound, absl::string_view advertise,
                                              std::span<const InterfaceAddress> interfaces);

}  // namespace gradwire::rpc
