// CRC-32C (Castagnoli), the checksum of chunks on sockets and of records and files on disk.
//
// The value is the standard one (RFC 3720 B.4: "123456789" -> 0xe3069283; empty -> 0), with the
// initial and final inversion included. It composes by continuing:
//   Crc32c(b, Crc32c(a)) == Crc32c(a + b).
// Thread-safety: stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace gradwire {

// CRC of `bytes`, continuing from `crc`, the CRC of what came before.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

// Copies `size_bytes` bytes and returns their CRC, continuing from `crc`. Source and destination
// don't overlap. Works through blocks that stay in the first-level cache, so that memory is read
// once. What is checksummed is what arrived in `dst`, as far as the caller alone writes there.
uint32_t Crc32cCopy(std::byte* dst, const std::byte* src, size_t size_bytes, uint32_t crc = 0);

}  // namespace gradwire
