// Between our buffers and gRPC's, without copying. Internal to rpc/transport/grpc.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "rpc/base/buffer.h"

namespace gradwire::rpc {

// Pieces above 1 KiB are shared: they stay alive until gRPC destroys its slice, whatever happens to
// the call.
grpc::ByteBuffer ToGrpc(const BufferList& message);

// The pieces share gRPC's slices.
BufferList FromGrpc(const grpc::ByteBuffer& message);

}  // namespace gradwire::rpc
