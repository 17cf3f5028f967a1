// Which addresses the gRPC transport takes. Internal to rpc/transport/grpc.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gradwire::rpc {

// OK for "host:port" with an IPv4 address, a name, or an IPv6 address in brackets. Nothing that
// gRPC would take for something else ("unix:…", a resolver's scheme) passes.
absl::Status CheckGrpcAddress(const std::string& address);

}  // namespace gradwire::rpc
