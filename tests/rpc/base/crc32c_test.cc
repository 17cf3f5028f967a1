#include "rpc/base/crc32c.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rpc/base/rng.h"

namespace gradwire {
namespace {

// Bit by bit, straight from the definition: reflected polynomial 0x82f63b78.
uint32_t ReferenceCrc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte b : bytes) {
    crc ^= static_cast<uint8_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
  }
  return ~crc;
}

std::vector<std::byte> RandomBytes(Rng& rng, size_t size) {
  std::vector<std::byte> bytes(size);
  rng.Fill(bytes);
  return bytes;
}

// RFC 3720, appendix B.4 (printed there byte by byte, least significant first).
TEST(Crc32cTest, Rfc3720Vectors) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
  constexpr std::array<uint8_t, 48> kReadCommand = {
      0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
      0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(kReadCommand))), 0xd9963a56u);
}

TEST(Crc32cTest, CheckValueAndEmpty) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::span<const std::byte>(), 0x12345678u), 0x12345678u);
}

TEST(Crc32cTest, EverySmallSizeAndAlignmentMatchesTheDefinition) {
  SeededRng rng(1);
  const auto bytes = RandomBytes(rng, 700);
  for (size_t offset = 0; offset < 16; ++offset) {
    for (size_t size = 0; size <= 640; size += (size < 80 ? 1 : 37)) {
      const auto piece = std::span(bytes).subspan(offset, size);
      ASSERT_EQ(Crc32c(piece), ReferenceCrc32c(piece)) << "offset " << offset << " size " << size;
    }
  }
}

TEST(Crc32cTest, ContinuingEqualsTheWhole) {
  SeededRng rng(2);
  const auto bytes = RandomBytes(rng, 20'000);
  const uint32_t whole = ReferenceCrc32c(bytes);
  for (int round = 0; round < 200; ++round) {
    const size_t cut = rng.Below(bytes.size() + 1);
    const auto all = std::span(bytes);
    ASSERT_EQ(Crc32c(all.subspan(cut), Crc32c(all.first(cut))), whole) << "cut at " << cut;
  }
}

TEST(Crc32cTest, CopyCopiesAndChecksums) {
  SeededRng rng(3);
  for (const size_t size : {0, 1, 63, 4096, 8191, 8192, 8193, 100'003}) {
    const auto src = RandomBytes(rng, size);
    std::vector<std::byte> dst(size + 2, std::byte{0x5a});
    EXPECT_EQ(Crc32cCopy(dst.data() + 1, src.data(), size, 77), Crc32c(src, 77)) << size;
    EXPECT_TRUE(std::equal(src.begin(), src.end(), dst.begin() + 1)) << size;
    EXPECT_EQ(dst.front(), std::byte{0x5a});
    EXPECT_EQ(dst.back(), std::byte{0x5a});
  }
}

TEST(Crc32cTest, EverySingleBitFlipIsSeen) {
  SeededRng rng(4);
  auto bytes = RandomBytes(rng, 257);
  const uint32_t good = Crc32c(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1 << (bit % 8));
    bytes[bit / 8] ^= mask;
    ASSERT_NE(Crc32c(bytes), good) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace gradwire
