// The job token, and the rule about where an agent may listen without one.
//
// Thread-safety: stateless.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/base/fs.h"
#include "rpc/base/secret.h"

namespace gradwire::rpc {

// Shorter ones could be guessed from a proof that was overheard; longer ones are another file.
inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 4096;

// Reads the token from `path`; line ends at its end are not part of it. Every error names the path
// and the next action: NOT_FOUND; PERMISSION_DENIED open to others (chmod 600) or somebody else's;
// INVALID_ARGUMENT too short or too long; FAILED_PRECONDITION not a file.
absl::StatusOr<Secret> LoadToken(FileSystem& fs, const std::string& path);

// Whether `address` ("host:port") is on the loopback interface: 127.0.0.0/8, ::1, localhost. Other
// spellings and names are not, whatever they resolve to.
bool IsLoopback(absl::string_view address);

// Loopback needs nothing. Any other address needs a token and, as long as the wire is not
// encrypted, the explicit --insecure-transport. FAILED_PRECONDITION names what is missing.
absl::Status CheckBind(absl::string_view address, bool has_token, bool insecure_transport);

}  // namespace gradwire::rpc
