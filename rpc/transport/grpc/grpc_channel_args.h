// Numbers that both ends give to gRPC. Internal to rpc/transport/grpc.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace gradwire::rpc {

inline constexpr int kKeepaliveTimeoutMs = 10'000;
// Metadata of a stream; ours send none.
inline constexpr int kMaxMetadataBytes = 8 << 10;

// At least 1 ms, at most a day: what gRPC's 32-bit milliseconds hold.
inline int MillisForGrpc(absl::Duration d) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::clamp(d, absl::Milliseconds(1), absl::Hours(24))));
}

}  // namespace gradwire::rpc
