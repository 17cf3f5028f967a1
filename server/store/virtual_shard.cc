#include "server/store/virtual_shard.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gradwire::server {
namespace {

absl::Status CheckServers(size_t server_count) {
  if (server_count >= 1 && server_count <= kVirtualShardCount) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a shard map is over 1 to ", kVirtualShardCount,
                                                 " servers, not ", server_count));
}

}  // namespace

absl::StatusOr<ShardMap> ShardMap::Even(size_t server_count, uint64_t epoch) {
  if (absl::Status status = CheckServers(server_count); !status.ok()) return status;
  ShardMap map;
  map.epoch_ = epoch;
  map.server_count_ = server_count;
  for (size_t shard = 0; shard < kVirtualShardCount; ++shard) {
    map.servers_[shard] = static_cast<uint16_t>(shard * server_count / kVirtualShardCount);
  }
  return map;
}

absl::StatusOr<ShardMap> ShardMap::FromList(std::span<const uint16_t> servers, size_t server_count,
                                            uint64_t epoch) {
  if (absl::Status status = CheckServers(server_count); !status.ok()) return status;
  if (servers.size() != kVirtualShardCount) {
    return absl::InvalidArgumentError(absl::StrCat("a shard map has ", kVirtualShardCount,
                                                   " entries, this one ", servers.size()));
  }
  for (size_t shard = 0; shard < kVirtualShardCount; ++shard) {
    if (servers[shard] >= server_count) {
      return absl::InvalidArgumentError(absl::StrCat("shard map: shard ", shard, " is on server ",
                                                     servers[shard], ", there are ", server_count));
    }
  }
  ShardMap map;
  map.epoch_ = epoch;
  map.server_count_ = server_count;
  std::copy(servers.begin(), servers.end(), map.servers_.begin());
  return map;
}

}  // namespace gradwire::server
