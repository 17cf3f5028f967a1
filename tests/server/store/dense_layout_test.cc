#include "server/store/dense_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rpc/base/rng.h"
#include "tests/server/store/store_testutil.h"
#include "tests/support/matchers.h"

namespace gradwire::server {
namespace {

using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

void ExpectSound(const std::vector<uint64_t>& tensors, size_t servers) {
  const auto layout = DenseLayout::Create(tensors, servers);
  ASSERT_TRUE(layout.ok()) << layout.status();
  // Every element once, in order.
  std::vector<uint64_t> covered(tensors.size());
  std::vector<uint64_t> load(servers);
  uint64_t largest = 0, total = 0;
  uint32_t last_tensor = 0;
  for (const DenseBlockSpec& block : layout->blocks()) {
    ASSERT_GE(block.tensor, last_tensor);
    last_tensor = block.tensor;
    ASSERT_EQ(block.offset, covered.at(block.tensor));
    ASSERT_EQ(block.offset % 16, 0u);
    ASSERT_GE(block.count, 1u);
    ASSERT_LE(block.count, kMaxBlockElements);
    covered[block.tensor] += block.count;
    load.at(block.server) += block.count;
    largest = std::max<uint64_t>(largest, block.count);
    total += block.count;
  }
  EXPECT_EQ(covered, tensors);
  EXPECT_EQ(layout->element_count(), total);
  const auto [least, most] = std::minmax_element(load.begin(), load.end());
  EXPECT_LE(*most - *least, largest);
  // Where there is enough to share, no server has more than an eighth above its share.
  const uint64_t share = total / servers;
  if (share >= kBlocksPerServer * kMinBlockElements) {
    EXPECT_LE(*most, share + share / 8 + 16);
  }
  // The servers' lists are the same blocks.
  size_t listed = 0;
  for (size_t server = 0; server < servers; ++server) {
    const auto blocks = layout->BlocksOf(server);
    listed += blocks.size();
    ASSERT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
    for (const uint32_t block : blocks) ASSERT_EQ(layout->blocks().at(block).server, server);
  }
  EXPECT_EQ(listed, layout->blocks().size());
  EXPECT_EQ(DenseLayout::Create(tensors, servers)->blocks(), layout->blocks());
}

TEST(DenseLayout, CoversEveryElementOnce) {
  ExpectSound({}, 1);
  ExpectSound({0}, 3);
  ExpectSound({1}, 3);
  ExpectSound({784 * 1024, 1024, 1024 * 10, 10}, 1);
  ExpectSound({784 * 1024, 1024, 1024 * 10, 10}, 3);
  ExpectSound({kMaxBlockElements, kMaxBlockElements + 1, 3 * kMaxBlockElements - 1}, 2);
  ExpectSound({uint64_t{1} << 30}, 64);
}

TEST(DenseLayout, CoversEveryElementOnceForRandomTensors) {
  const uint64_t seed = TestSeed();
  SeededRng rng(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> tensors(rng.Below(30));
    for (uint64_t& count : tensors) count = rng.Below(uint64_t{1} << rng.Below(26));
    SCOPED_TRACE(seed);
    ExpectSound(tensors, 1 + rng.Below(20));
  }
}

// Clients and servers of different builds must agree.
TEST(DenseLayout, NeverChanges) {
  const std::vector<uint64_t> tensors = {784 * 1024, 1024, 0, 1024 * 10, 10};
  const auto layout = DenseLayout::Create(tensors, 2);
  ASSERT_TRUE(layout.ok());
  const std::vector<DenseBlockSpec> want = {
      {0, 0, 0, 50176},      {0, 1, 50176, 50176},  {0, 0, 100352, 50176}, {0, 1, 150528, 50176},
      {0, 0, 200704, 50176}, {0, 1, 250880, 50176}, {0, 0, 301056, 50176}, {0, 1, 351232, 50176},
      {0, 0, 401408, 50176}, {0, 1, 451584, 50176}, {0, 0, 501760, 50176}, {0, 1, 551936, 50176},
      {0, 0, 602112, 50176}, {0, 1, 652288, 50176}, {0, 0, 702464, 50176}, {0, 1, 752640, 50176},
      {1, 1, 0, 1024},       {3, 0, 0, 10240},      {4, 1, 0, 10}};
  EXPECT_EQ(layout->blocks(), want);
}

TEST(DenseLayout, RefusesWhatCantBe) {
  const std::vector<uint64_t> one = {1};
  EXPECT_THAT(DenseLayout::Create(one, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DenseLayout::Create(one, kMaxServerCount + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4097")));
  EXPECT_THAT(DenseLayout::Create(std::vector<uint64_t>(kMaxTensorCount + 1, 1), 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("65537 tensors")));
  EXPECT_THAT(DenseLayout::Create(std::vector<uint64_t>{1, kMaxTableElements}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("tensor 1")));
  EXPECT_THAT(DenseLayout::Create(std::vector<uint64_t>{5, UINT64_MAX}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// The largest that is allowed costs little, whatever the servers can hold.
TEST(DenseLayout, TheLargestIsSmall) {
  const auto layout = DenseLayout::Create(std::vector<uint64_t>{kMaxTableElements}, 8);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->blocks().size(), kMaxTableElements / kMaxBlockElements);
}

}  // namespace
}  // namespace gradwire::server
