// Integers as both file formats store them: the lowest byte first, whatever the machine does.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire::data {

template <std::unsigned_integral T>
void AppendLittleEndian(T value, std::string& out) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

// The number in the first bytes of `bytes`, of which there must be enough.
template <std::unsigned_integral T>
T FromLittleEndian(absl::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  }
  return value;
}

}  // namespace gradwire::data
