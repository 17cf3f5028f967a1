#include "rpc/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace gradwire {

absl::Status WithContext(const absl::Status& status, absl::string_view context) {
  if (status.ok() || context.empty()) return status;
  absl::Status out(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { out.SetPayload(url, payload); });
  return out;
}

absl::Status StatusContext::Build() const { return WithContext(status_, stream_.str()); }

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: invariant does not hold: %s (this is a bug in Gradwire)\n", file,
               line, condition);
  std::abort();
}

}  // namespace gradwire
