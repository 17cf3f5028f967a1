#include "rpc/base/buffer.h"

namespace gradwire {

Buffer Buffer::FromString(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const Bytes bytes = AsBytes(*owner);
  return Buffer(bytes, std::move(owner));
}

Buffer Buffer::Copy(Bytes bytes) { return FromString(std::string(AsText(bytes))); }

Buffer BufferList::Flatten() const {
  if (pieces_.empty()) return Buffer();
  if (pieces_.size() == 1) return pieces_.front();
  std::string all;
  all.reserve(size_bytes_);
  for (const Buffer& piece : pieces_) {
    all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return Buffer::FromString(std::move(all));
}

}  // namespace gradwire
