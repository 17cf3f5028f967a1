#include "rpc/transport/grpc/grpc_bytes.h"

#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>
#include <vector>

#include "rpc/transport/grpc/tsan_handoff.h"

namespace gradwire::rpc {
namespace {
// Below this a copy is cheaper than the bookkeeping of sharing.
constexpr size_t kCopyBytes = 1024;

void ReleaseOwner(void* owner) {
  TakeFromGrpc(owner);
  delete static_cast<std::shared_ptr<const void>*>(owner);
}
}  // namespace

grpc::ByteBuffer ToGrpc(const BufferList& message) {
  absl::InlinedVector<grpc::Slice, 4> slices;
  for (const Buffer& piece : message.pieces()) {
    if (piece.size() <= kCopyBytes) {
      slices.emplace_back(piece.data(), piece.size());
    } else {
      auto* owner = new std::shared_ptr<const void>(piece.owner());
      HandToGrpc(owner);
      slices.emplace_back(const_cast<std::byte*>(piece.data()), piece.size(), &ReleaseOwner, owner);
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

BufferList FromGrpc(const grpc::ByteBuffer& message) {
  BufferList out;
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!message.Dump(slices.get()).ok()) return out;
  for (const grpc::Slice& slice : *slices) {
    if (slice.size() == 0) continue;
    out.Append(
        Buffer(Bytes(reinterpret_cast<const std::byte*>(slice.begin()), slice.size()), slices));
  }
  return out;
}

}  // namespace gradwire::rpc
