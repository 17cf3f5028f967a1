// Any text is a progress line or refused with a status; what was accepted is written and read back
// as the same line.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "rpc/base/status.h"
#include "worker/launch/progress.h"

namespace gradwire::launch {
namespace {

void Check(absl::string_view text) {
  const absl::StatusOr<Progress> progress = ParseProgress(text);
  if (!progress.ok()) {
    GW_CHECK(absl::IsInvalidArgument(progress.status()));
    return;
  }
  const std::string line = EncodeProgress(*progress);
  GW_CHECK(line.size() < kMaxProgressLineBytes);
  const absl::StatusOr<Progress> again = ParseProgress(line);
  GW_CHECK(again.ok());
  GW_CHECK(EncodeProgress(*again) == line);
}

}  // namespace
}  // namespace gradwire::launch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  gradwire::launch::Check(text);
  // Past the first hurdle, so that the fields are reached at once.
  gradwire::launch::Check("progress=1 rank=0 " + std::string(text));
  return 0;
}
