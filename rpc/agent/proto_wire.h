// Protobuf's wire format, as far as frames need it: read without copying and without trust, write
// without a message object. Source of the format: the Protocol Buffers documentation, "Encoding".
//
// Stricter than libprotobuf: groups are refused, integers must fit their field's type. Tags and
// lengths take at most 5 bytes, as there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/base/buffer.h"
#include "rpc/base/utf8.h"

namespace gradwire::rpc::wire {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

class Reader {
 public:
  explicit Reader(Bytes bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const std::byte* at() const { return at_; }

  // All return false when the bytes end early or are malformed.
  bool Varint(uint64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) return false;
      const auto byte = static_cast<uint8_t>(*at_++);
      if (shift == 63 && byte > 1) return false;  // beyond 64 bits
      result |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        *value = result;
        return true;
      }
    }
    return false;
  }
  // One of at most 5 bytes.
  bool Varint32(uint32_t* value) {
    const std::byte* const begin = at_;
    uint64_t wide = 0;
    if (!Varint(&wide) || at_ - begin > 5 || wide > UINT32_MAX) return false;
    *value = static_cast<uint32_t>(wide);
    return true;
  }
  bool Tag(uint32_t* field, uint32_t* type) {
    uint32_t tag = 0;
    if (!Varint32(&tag) || (tag >> 3) == 0) return false;
    *field = tag >> 3;
    *type = tag & 7;
    return true;
  }
  bool Fixed64(uint64_t* value) { return Raw(value, sizeof(*value)); }
  bool Fixed32(uint32_t* value) { return Raw(value, sizeof(*value)); }
  bool Length(Bytes* value) {
    uint32_t size = 0;
    if (!Varint32(&size) || size > left()) return false;
    *value = Bytes(at_, size);
    at_ += size;
    return true;
  }
  // Skips the value of a field that the reader doesn't know.
  bool Skip(uint32_t type) {
    uint64_t ignored = 0;
    uint32_t ignored32 = 0;
    Bytes ignored_bytes;
    switch (type) {
      case kVarint:
        return Varint(&ignored);
      case kFixed64:
        return Fixed64(&ignored);
      case kFixed32:
        return Fixed32(&ignored32);
      case kLength:
        return Length(&ignored_bytes);
      default:
        return false;  // groups and what does not exist
    }
  }

 private:
  bool Raw(void* value, size_t size) {
    if (left() < size) return false;
    std::memcpy(value, at_, size);  // little-endian hosts only; checked below
    at_ += size;
    return true;
  }
  const std::byte* at_;
  const std::byte* end_;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are read and written in place");

// ---- writing: appended to a string; default values are left out, as proto3 does ----

inline void PutVarint(std::string& out, uint64_t value) {
  char bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<char>(value);
  out.append(bytes, n);
}
inline void PutTag(std::string& out, uint32_t field, WireType type) {
  PutVarint(out, (field << 3) | type);
}
inline void PutUint(std::string& out, uint32_t field, uint64_t value) {
  if (value == 0) return;
  PutTag(out, field, kVarint);
  PutVarint(out, value);
}
inline void PutFixed64(std::string& out, uint32_t field, uint64_t value) {
  if (value == 0) return;
  PutTag(out, field, kFixed64);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void PutFixed32(std::string& out, uint32_t field, uint32_t value) {
  if (value == 0) return;
  PutTag(out, field, kFixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
inline void PutBytes(std::string& out, uint32_t field, absl::string_view value) {
  if (value.empty()) return;
  PutTag(out, field, kLength);
  PutVarint(out, value.size());
  out.append(value.data(), value.size());
}
// A string field of at most `limit_bytes`: text that is not UTF-8 is repaired, too long text cut.
inline void PutText(std::string& out, uint32_t field, absl::string_view text, size_t limit_bytes) {
  if (text.size() <= limit_bytes && IsValidUtf8(text)) {
    PutBytes(out, field, text);
  } else {
    PutBytes(out, field, CutUtf8(ValidUtf8(text.substr(0, limit_bytes)), limit_bytes));
  }
}
// A submessage, or a string of a repeated field: also when it is empty.
inline void PutMessage(std::string& out, uint32_t field, absl::string_view value) {
  PutTag(out, field, kLength);
  PutVarint(out, value.size());
  out.append(value.data(), value.size());
}

}  // namespace gradwire::rpc::wire
