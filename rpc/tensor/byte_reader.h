// Reads little-endian values from bytes that come from a peer.
//
// Never reads outside, never throws, never allocates: a read that doesn't fit returns false and
// moves nothing. Thread-safety: none; one reader, one thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/base/buffer.h"

namespace gradwire::rpc {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian; a big-endian machine needs swaps here");

class ByteReader {
 public:
  // Shows `bytes`, which must outlive the reader.
  explicit ByteReader(Bytes bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  // bool is read as a uint8_t, by those who check it.
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  [[nodiscard]] bool Read(T& out) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  // Shows the next `count` bytes.
  [[nodiscard]] bool ReadBytes(size_t count, Bytes& out) {
    if (remaining() < count) return false;
    out = bytes_.subspan(offset_, count);
    offset_ += count;
    return true;
  }

  // The error for a read that returned false.
  absl::Status EndsEarly(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(what, " ends early: byte ", offset_, " of ",
                                                   bytes_.size(), " is where it should go on"));
  }

 private:
  Bytes bytes_;
  size_t offset_ = 0;
};

}  // namespace gradwire::rpc
