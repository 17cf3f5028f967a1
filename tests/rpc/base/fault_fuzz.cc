// Any text is either understood or refused with INVALID_ARGUMENT; neither crashes.
#include <cstddef>
#include <cstdint>

#include "rpc/base/fault.h"
#include "rpc/base/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::FaultPlan plan;
  const absl::Status status = plan.AddFromText({reinterpret_cast<const char*>(data), size});
  GW_CHECK(status.ok() || status.code() == absl::StatusCode::kInvalidArgument);
  return 0;
}
