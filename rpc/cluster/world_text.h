// A World as the text of a file.
//
//   gradwire rendezvous 1
//   last 7969472034893824001
//   world 2
//   member ps0 10.0.0.5:7000 7969472034893824001 0 5577006791947779410 live dealt
//   end 1a2b3c4d
//
// A member's line: name, address or "-", incarnation, rank, instance, live or dead, whether its
// rank was chosen by it or dealt. The last line is the CRC-32C of all before it. Thread-safety:
// stateless. Errors: DATA_LOSS naming the line and what is wrong.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rpc/cluster/world.h"

namespace gradwire::rpc {

// A full world has 4096 lines of at most 500 characters.
inline constexpr size_t kMaxWorldTextBytes = size_t{4} << 20;

std::string WriteWorld(const World& world);
absl::StatusOr<World> ParseWorld(absl::string_view text);

}  // namespace gradwire::rpc
