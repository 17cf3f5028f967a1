// Virtual shards: where a row of a sparse table lives.
//
// An id belongs to one of 4 096 virtual shards for ever; a ShardMap says which server holds which
// shard, and may change while a job runs (its epoch says which map a request was made with).
//
// Format:        ShardOf is on the wire and on disk: it never changes (pinned by a test).
// Thread-safety: values and free functions.
// Errors:        INVALID_ARGUMENT: a map that can't be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace gradwire::server {

inline constexpr size_t kVirtualShardCount = 4096;
inline constexpr int kVirtualShardBits = 12;

// A virtual shard of a table: 0 … kVirtualShardCount - 1.
using VirtualShard = uint16_t;

// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number
// Generators", 2014; constants: Stafford's Mix13). A bijection: every bit of the result depends on
// every bit of `bits`.
constexpr uint64_t MixBits(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// The top 12 bits of MixBits(id + 0x9e3779b97f4a7c15), computed modulo 2^64: SplitMix64's first
// number from the seed `id`.
constexpr VirtualShard ShardOf(int64_t id) {
  return static_cast<VirtualShard>(MixBits(static_cast<uint64_t>(id) + 0x9e3779b97f4a7c15) >>
                                   (64 - kVirtualShardBits));
}

// The owner thread, of `owner_count` on the server that holds `shard`, that the shard's rows belong
// to. owner_count: at least 1.
constexpr size_t OwnerOf(VirtualShard shard, size_t owner_count) { return shard % owner_count; }

// Which server, by its index in the job's list, holds which shard.
class ShardMap {
 public:
  // Ranges as even as can be: server i of n holds the shards s with floor(s * n / 4096) = i.
  // INVALID_ARGUMENT: no server, or more servers than shards. epoch: starts at 1; 0 is no map.
  static absl::StatusOr<ShardMap> Even(size_t server_count, uint64_t epoch = 1);
  // As it came from a peer or a file. servers: kVirtualShardCount indices below server_count.
  static absl::StatusOr<ShardMap> FromList(std::span<const uint16_t> servers, size_t server_count,
                                           uint64_t epoch);

  size_t ServerOf(VirtualShard shard) const { return servers_[shard]; }
  size_t ServerOfId(int64_t id) const { return servers_[ShardOf(id)]; }
  uint64_t epoch() const { return epoch_; }
  size_t server_count() const { return server_count_; }
  std::span<const uint16_t, kVirtualShardCount> servers() const { return servers_; }

 private:
  ShardMap() = default;

  uint64_t epoch_ = 0;
  size_t server_count_ = 0;
  std::array<uint16_t, kVirtualShardCount> servers_{};
};

}  // namespace gradwire::server
