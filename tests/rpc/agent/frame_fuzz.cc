// Frames of items: ours against libprotobuf, and back from our own writer.
//
// Input: bytes as they come, or (first byte odd) a seed for a right message that is then damaged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "rpc/base/status.h"
#include "tests/rpc/agent/frame_oracle.h"

namespace gradwire::rpc::testing {
namespace {

void Demand(const std::string& complaint) {
  if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
  GW_CHECK(complaint.empty());
}

void Try(absl::string_view input) {
  if (input.empty()) return;
  const bool made = (input[0] & 1) != 0;
  input.remove_prefix(1);
  uint64_t seed = 0;
  std::memcpy(&seed, input.data(), std::min(input.size(), sizeof(seed)));
  SeededRng rng(seed);
  if (!made) {
    Demand(CheckFrame(input));
    return;
  }
  std::string complaint;
  std::string message = RandomItemsFrame(rng, &complaint);
  Demand(complaint);
  message = Damage(std::move(message), rng);
  Demand(CheckFrame(message));
}

}  // namespace
}  // namespace gradwire::rpc::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::rpc::testing::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
