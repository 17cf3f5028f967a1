#include "rpc/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace gradwire {
namespace {

// Length of the valid sequence at the start of `text`, 0 when there is none (Unicode 15, table
// 3-7).
size_t SequenceBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return size;
}

}  // namespace

std::string ValidUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = SequenceBytes(text);
    if (size == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    out.append(text.data(), size);
    text.remove_prefix(size);
  }
  return out;
}

bool IsValidUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = SequenceBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

absl::string_view CutUtf8(absl::string_view text, size_t limit_bytes) {
  if (text.size() <= limit_bytes) return text;
  size_t end = limit_bytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace gradwire
