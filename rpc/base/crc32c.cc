#include "rpc/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

namespace gradwire {
namespace {

// The library counts in int: larger inputs go through in pieces of this size.
constexpr size_t kMaxPieceBytes = size_t{1} << 30;

// Block of the copying variant: source and destination together take half of a 32 KiB L1 cache.
constexpr size_t kCopyBlockBytes = 8 * 1024;

// crc32_iscsi works on the raw register: no inversion at either end, and it takes a non-const
// pointer that it only reads.
uint32_t Continue(uint32_t state, const std::byte* data, size_t size_bytes) {
  auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data));
  while (size_bytes > 0) {
    const size_t piece = std::min(size_bytes, kMaxPieceBytes);
    state = crc32_iscsi(bytes, static_cast<int>(piece), state);
    bytes += piece;
    size_bytes -= piece;
  }
  return state;
}

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc) {
  return ~Continue(~crc, bytes.data(), bytes.size());
}

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
  return Crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())), crc);
}

uint32_t Crc32cCopy(std::byte* dst, const std::byte* src, size_t size_bytes, uint32_t crc) {
  uint32_t state = ~crc;
  while (size_bytes > 0) {
    const size_t block = std::min(size_bytes, kCopyBlockBytes);
    std::memcpy(dst, src, block);
    state = Continue(state, dst, block);
    dst += block;
    src += block;
    size_bytes -= block;
  }
  return ~state;
}

}  // namespace gradwire
