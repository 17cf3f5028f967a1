// DenseLayout: how the tensors of a dense table are cut into blocks and spread over servers.
//
// Computed alike by clients and servers from (element counts, server count): deterministic,
// integers alone. A tensor is cut into equal blocks (all but its last, multiples of 16 elements) of
// at most kMaxBlockElements, and of less where the servers would get less than kBlocksPerServer
// each. Blocks go, largest first, to the server that has the fewest elements, so that no two
// servers differ by more than one block.
//
// Format:        travels implicitly: it changes only together with the protocol's version.
// Thread-safety: values.
// Limits:        kMaxTensorCount, kMaxTableElements, kMaxServerCount -> INVALID_ARGUMENT.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire::server {

// float32: blocks of 1 MiB at most.
inline constexpr size_t kMaxBlockElements = size_t{1} << 18;
// Below 64 KiB the cost of a block's own message counts.
inline constexpr size_t kMinBlockElements = size_t{1} << 14;
// Enough that the servers' loads differ by an eighth at most.
inline constexpr size_t kBlocksPerServer = 8;
// The largest models have some ten thousand tensors.
inline constexpr size_t kMaxTensorCount = size_t{1} << 16;
// 256 GiB of float32: with the other two it bounds what a layout takes (some 20 MiB), before any
// server was asked whether it has room.
inline constexpr uint64_t kMaxTableElements = uint64_t{1} << 36;
inline constexpr size_t kMaxServerCount = 4096;

// A part of one tensor: elements [offset, offset + count) of it.
struct DenseBlockSpec {
  uint32_t tensor = 0;
  uint32_t server = 0;
  uint64_t offset = 0;
  uint32_t count = 0;

  friend bool operator==(const DenseBlockSpec&, const DenseBlockSpec&) = default;
};

class DenseLayout {
 public:
  // element_counts: of each tensor; 0 gives no block.
  static absl::StatusOr<DenseLayout> Create(std::span<const uint64_t> element_counts,
                                            size_t server_count);

  // In the order of the tensors and their elements; a block's number is its place here.
  const std::vector<DenseBlockSpec>& blocks() const { return blocks_; }
  // The numbers of a server's blocks, ascending. server: below server_count().
  std::span<const uint32_t> BlocksOf(size_t server) const { return by_server_[server]; }
  size_t server_count() const { return by_server_.size(); }
  uint64_t element_count() const { return element_count_; }

 private:
  DenseLayout() = default;

  std::vector<DenseBlockSpec> blocks_;
  std::vector<std::vector<uint32_t>> by_server_;
  uint64_t element_count_ = 0;
};

}  // namespace gradwire::server
