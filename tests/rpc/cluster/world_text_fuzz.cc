// Any file of members is a world or refused as DATA_LOSS; a world is written and read back as the
// same, and whoever joins it gets an incarnation above all of it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/status.h"
#include "rpc/cluster/world_text.h"

namespace gradwire::rpc {
namespace {

void Check(absl::string_view text) {
  absl::StatusOr<World> world = ParseWorld(text);
  if (!world.ok()) {
    GW_CHECK(absl::IsDataLoss(world.status()));
    return;
  }
  const absl::StatusOr<World> again = ParseWorld(WriteWorld(*world));
  GW_CHECK(again.ok() && *again == *world);
  const uint64_t last = world->last_incarnation();
  const absl::StatusOr<Member> self =
      world->Admit({.name = "newcomer", .instance = 9, .world_size = 0}, Incarnation{1});
  if (self.ok()) GW_CHECK(self->incarnation.value > last);
}

}  // namespace
}  // namespace gradwire::rpc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  gradwire::rpc::Check(text);
  // The same as the middle of a file whose frame and checksum are right.
  const std::string file = absl::StrCat("gradwire rendezvous 1\n", text, "\n");
  gradwire::rpc::Check(
      absl::StrCat(file, "end ", absl::StrFormat("%08x", gradwire::Crc32c(file)), "\n"));
  return 0;
}
