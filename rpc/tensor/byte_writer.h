// Appends little-endian values to a growing string.
//
// Thread-safety: none; one writer, one thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "rpc/base/buffer.h"

namespace gradwire::rpc {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian; a big-endian machine needs swaps here");

class ByteWriter {
 public:
  // Space for a small call, so that one allocation serves it.
  ByteWriter() { out_.reserve(120); }

  template <class T>
    requires std::is_arithmetic_v<T>
  void Write(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void WriteBytes(Bytes bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  size_t size() const { return out_.size(); }
  // What was written; the writer is empty afterwards.
  std::string Take() { return std::exchange(out_, std::string()); }

 private:
  std::string out_;
};

}  // namespace gradwire::rpc
