// Bytes that are shared and never change: what travels between the layers without being copied.
//
// A Buffer is a span plus whatever keeps it alive (a tensor, a pooled block, a received message).
// Thread-safety: values; the bytes are immutable while any Buffer shows them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace gradwire {

using Bytes = std::span<const std::byte>;

inline Bytes AsBytes(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline absl::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Buffer {
 public:
  Buffer() = default;
  // Shows `bytes`, which `owner` keeps alive and unchanged.
  Buffer(Bytes bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  // Takes a string over without copying its bytes.
  static Buffer FromString(std::string text);
  // Copies.
  static Buffer Copy(Bytes bytes);

  Bytes bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The part [offset, offset + count), which shares the owner. The range must lie inside.
  Buffer Slice(size_t offset, size_t count) const {
    return Buffer(bytes_.subspan(offset, count), owner_);
  }

 private:
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
};

// One message as a list of pieces, in order.
class BufferList {
 public:
  void Append(Buffer piece) {
    size_bytes_ += piece.size();
    pieces_.push_back(std::move(piece));
  }
  void Clear() {
    pieces_.clear();
    size_bytes_ = 0;
  }
  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return pieces_.empty(); }
  const auto& pieces() const { return pieces_; }

  // One contiguous buffer: the only piece itself, else a copy of all of them.
  Buffer Flatten() const;

 private:
  absl::InlinedVector<Buffer, 2> pieces_;
  size_t size_bytes_ = 0;
};

}  // namespace gradwire
