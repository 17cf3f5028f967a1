// Bytes that are no text: "bytes" on the wire, where std::string is "string".
//
// A wrapper of its own, because C++ has one type for both and other languages have two.
#pragma once

#include <compare>
#include <functional>
#include <string>

namespace gradwire::rpc {

struct ByteString {
  std::string data;

  friend auto operator<=>(const ByteString&, const ByteString&) = default;
};

}  // namespace gradwire::rpc

template <>
struct std::hash<gradwire::rpc::ByteString> {
  size_t operator()(const gradwire::rpc::ByteString& bytes) const noexcept {
    return std::hash<std::string>()(bytes.data);
  }
};
