// Limits of values on the wire: arguments, results and the tensors in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradwire::rpc {

// 8 dimensions a tensor: the largest rank that layers use (3-d convolutions have 5), small enough
// that a shape needs no allocation.
inline constexpr size_t kMaxTensorDims = 8;
// 1024 bytes: smaller tensors lie inside the head, where they cost no attachment.
inline constexpr size_t kMaxEmbeddedBytes = 1024;
// 64 KiB: larger tensors in arguments are borrowed until the reply, others are copied at the call.
inline constexpr size_t kBorrowBytes = 64u << 10;
// 32 types inside each other, counted by the compiler: bounds the stack that decoding takes.
inline constexpr int kMaxValueDepth = 32;

// What may differ between agents.
struct ValueLimits {
  // Default: 2 GiB. Bytes of one tensor.
  uint64_t max_tensor_bytes = uint64_t{2} << 30;
  // Default: 16 MiB. Bytes of one string or byte string; more belongs into a uint8 tensor, which
  // travels in chunks.
  uint32_t max_string_bytes = 16u << 20;
};

}  // namespace gradwire::rpc
