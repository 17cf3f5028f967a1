// The job token, and the rule about where an agent may listen without one.
//
// Thread-safety: stateless.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"

namespace gradwire::rpc {

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 4096;

// Reads the token from `path`; a newline at its end is not part of it. Every error names the path
// and the next action: NOT_FOUND; PERMISSION_DENIED readable by others (chmod 600);
// INVALID_ARGUMENT too short or too long.
absl::StatusOr<std::string> LoadToken(FileSystem& fs, const std::string& path);

// Whether `address` ("host:port") is on the loopback interface: 127.0.0.0/8, ::1, localhost.
bool IsLoopback(absl::string_view address);

// Loopback needs nothing. Any other address needs a token and, as long as the wire is not
// encrypted, the explicit
// --insecure-transport. FAILED_PRECONDITION names what is missing.
absl::Status CheckBind(absl::string_view address, bool has_token, bool insecure_transport);

}  // namespace gradwire::rpc
