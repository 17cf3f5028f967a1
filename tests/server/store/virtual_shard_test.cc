#include "server/store/virtual_shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

// For ever: checkpoints and peers know rows by these.
TEST(ShardOf, NeverChanges) {
  EXPECT_EQ(MixBits(0x9e3779b97f4a7c15), 0xe220a8397b1dcdafu);  // SplitMix64's first from seed 0
  EXPECT_EQ(ShardOf(0), 0xe22);
  const std::vector<int64_t> ids = {1,
                                    2,
                                    42,
                                    1'000'000,
                                    9'007'199'254'740'993,
                                    -1,
                                    -2,
                                    std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::min()};
  std::vector<int> shards;
  for (const int64_t id : ids) shards.push_back(ShardOf(id));
  EXPECT_EQ(shards, (std::vector<int>{2320, 2421, 3037, 1664, 85, 3661, 3890, 678, 1153}));
}

// Whatever pattern the ids have, the shards fill evenly.
TEST(ShardOf, SpreadsPatterns) {
  for (const int64_t stride :
       {int64_t{1}, int64_t{2}, int64_t{4096}, int64_t{1} << 32, int64_t{-7}}) {
    std::vector<int> counts(kVirtualShardCount);
    constexpr int kIds = 100 * kVirtualShardCount;
    for (int64_t i = 0; i < kIds; ++i) ++counts[ShardOf(i * stride)];
    // Poisson with mean 100: 60 and 150 are more than four standard deviations off.
    EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 50) << stride;
    EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 160) << stride;
  }
}

TEST(ShardMap, GivesEveryServerItsPart) {
  for (const size_t servers : {1u, 2u, 3u, 7u, 4095u, 4096u}) {
    const auto map = ShardMap::Even(servers);
    ASSERT_TRUE(map.ok()) << map.status();
    std::vector<size_t> counts(servers);
    for (size_t shard = 0; shard < kVirtualShardCount; ++shard) {
      ++counts.at(map->ServerOf(static_cast<VirtualShard>(shard)));
    }
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    EXPECT_LE(*most - *least, 1u) << servers;
    EXPECT_EQ(map->epoch(), 1u);
  }
  const auto map = ShardMap::Even(3);
  EXPECT_EQ(map->ServerOfId(0), 2u);  // shard 0xe22 of 0x1000
}

TEST(ShardMap, TravelsAsAList) {
  const auto map = ShardMap::Even(5, 7);
  const auto copy = ShardMap::FromList(map->servers(), 5, 7);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_TRUE(std::equal(map->servers().begin(), map->servers().end(), copy->servers().begin()));
  EXPECT_EQ(copy->epoch(), 7u);
  EXPECT_EQ(copy->server_count(), 5u);
}

TEST(ShardMap, RefusesWhatCantBe) {
  EXPECT_THAT(ShardMap::Even(0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not 0")));
  EXPECT_THAT(ShardMap::Even(4097), StatusIs(absl::StatusCode::kInvalidArgument));
  std::vector<uint16_t> servers(kVirtualShardCount, 1);
  EXPECT_THAT(ShardMap::FromList(std::span(servers).first(4095), 2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4095")));
  servers[17] = 2;
  EXPECT_THAT(ShardMap::FromList(servers, 2, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shard 17 is on server 2")));
}

TEST(OwnerOf, SpreadsTheShardsOfAServer) {
  const auto map = ShardMap::Even(3);
  std::vector<int> counts(4);
  for (size_t shard = 0; shard < kVirtualShardCount; ++shard) {
    if (map->ServerOf(static_cast<VirtualShard>(shard)) == 1) {
      ++counts.at(OwnerOf(static_cast<VirtualShard>(shard), 4));
    }
  }
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_LE(*most - *least, 1);
}

}  // namespace
}  // namespace gradwire::server
