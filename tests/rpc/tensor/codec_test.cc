#include "rpc/tensor/codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <unordered_map>

#include "tests/rpc/tensor/round_trip.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using testing::DecodeHex;
using testing::DecodeOne;
using ::testing::ElementsAre;
using testing::EncodeHex;
using testing::EncodeOne;
using ::testing::Eq;
using ::testing::HasSubstr;
using testing::RoundTrip;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

enum class Color : uint8_t { kRed = 1, kBlue = 2 };
enum Level : int16_t { kLow = -3 };

struct Point {
  int32_t x = 0;
  double y = 0;
  friend bool operator==(const Point&, const Point&) = default;
  GW_FIELDS(x, y);
};
struct Shape {
  std::string name;
  std::vector<Point> points;
  std::optional<Point> center;
  std::map<std::string, Color> colors;
  friend bool operator==(const Shape&, const Shape&) = default;
  GW_FIELDS(name, points, center, colors);
};
struct Empty {
  friend bool operator==(const Empty&, const Empty&) = default;
  GW_FIELDS();
};
struct Wide {
  int8_t a0 = 0, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, a8 = 8, a9 = 9;
  int8_t b0 = 0, b1 = 1, b2 = 2, b3 = 3, b4 = 4, b5 = 5, b6 = 6, b7 = 7, b8 = 8, b9 = 9;
  int8_t c0 = 0, c1 = 1, c2 = 2, c3 = 3, c4 = 4, c5 = 5, c6 = 6, c7 = 7, c8 = 8, c9 = 9;
  int8_t d0 = 0, d1 = 1, d2 = 2, d3 = 3, d4 = 4, d5 = 5;
  friend bool operator==(const Wide&, const Wide&) = default;
  GW_FIELDS(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1,
            c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5);
};

// The bytes of values.md.
TEST(CodecTest, WritesTheDocumentedBytes) {
  EXPECT_EQ(EncodeHex(true), "01");
  EXPECT_EQ(EncodeHex(int8_t{-1}), "ff");
  EXPECT_EQ(EncodeHex(uint16_t{0x1234}), "3412");
  EXPECT_EQ(EncodeHex(int32_t{-2}), "feffffff");
  EXPECT_EQ(EncodeHex(uint64_t{1} << 63), "0000000000000080");
  EXPECT_EQ(EncodeHex(1.0f), "0000803f");
  EXPECT_EQ(EncodeHex(-2.0), "00000000000000c0");
  EXPECT_EQ(EncodeHex(std::string("ab")), "020000006162");
  EXPECT_EQ(EncodeHex(ByteString{std::string("\0\xff", 2)}), "0200000000ff");
  EXPECT_EQ(EncodeHex(Color::kBlue), "02");
  EXPECT_EQ(EncodeHex(kLow), "fdff");
  EXPECT_EQ(EncodeHex(absl::Microseconds(1)), "e803000000000000");
  EXPECT_EQ(EncodeHex(std::optional<int8_t>()), "00");
  EXPECT_EQ(EncodeHex(std::optional<int8_t>(5)), "0105");
  EXPECT_EQ(EncodeHex(std::pair<bool, uint16_t>(true, 2)), "010200");
  EXPECT_EQ(EncodeHex(std::tuple<>()), "");
  EXPECT_EQ(EncodeHex(std::tuple<uint8_t, uint8_t, std::string>(1, 2, "")), "010200000000");
  EXPECT_EQ(EncodeHex(std::vector<uint16_t>{1, 2}), "0200000001000200");
  EXPECT_EQ(EncodeHex(std::vector<bool>{true, false}), "020000000100");
  EXPECT_EQ(EncodeHex(std::map<int8_t, bool>{{1, true}, {-1, false}}), "02000000ff000101");
  EXPECT_EQ(EncodeHex(Point{.x = 1, .y = 1.0}), "01000000000000000000f03f");
}

TEST(CodecTest, EveryTypeComesBack) {
  const Shape shape{
      "star", {{1, 2}, {3, 4}}, Point{5, 6}, {{"a", Color::kRed}, {"b", Color::kBlue}}};
  EXPECT_THAT(RoundTrip(shape), IsOkAndHolds(Eq(shape)));
  EXPECT_THAT(RoundTrip(Wide{}), IsOkAndHolds(Eq(Wide{})));
  EXPECT_THAT(RoundTrip(Empty{}), IsOkAndHolds(Eq(Empty{})));
  EXPECT_THAT(RoundTrip(std::vector<bool>{true, false, true}),
              IsOkAndHolds(ElementsAre(true, false, true)));
  EXPECT_THAT(RoundTrip(std::vector<double>{}), IsOkAndHolds(ElementsAre()));
  EXPECT_THAT(RoundTrip(std::vector<std::string>{"", "x"}), IsOkAndHolds(ElementsAre("", "x")));
  const std::unordered_map<ByteString, std::vector<int64_t>> table = {
      {{"b"}, {1}}, {{"a"}, {}}, {{"\xff"}, {2, 3}}};
  EXPECT_THAT(RoundTrip(table), IsOkAndHolds(Eq(table)));
  const std::map<Color, std::tuple<bool, float>> by_color = {{Color::kBlue, {true, 0.5f}}};
  EXPECT_THAT(RoundTrip(by_color), IsOkAndHolds(Eq(by_color)));
  const std::optional<std::optional<int>> nested = std::optional<int>();
  EXPECT_THAT(RoundTrip(nested), IsOkAndHolds(Eq(nested)));
  EXPECT_THAT(RoundTrip(static_cast<Color>(77)), IsOkAndHolds(Eq(static_cast<Color>(77))));
}

TEST(CodecTest, MapsOfBothKindsShareTheirBytes) {
  std::map<std::string, int64_t> sorted;
  std::unordered_map<std::string, int64_t> hashed;
  for (int i = 0; i < 100; ++i) {
    sorted[absl::StrCat("key", i * 7919 % 100)] = i;
    hashed[absl::StrCat("key", i * 7919 % 100)] = i;
  }
  EXPECT_EQ(EncodeHex(sorted), EncodeHex(hashed));
}

TEST(CodecTest, DurationsKeepInfinityAndSaturate) {
  const absl::Duration most = absl::Nanoseconds(std::numeric_limits<int64_t>::max() - 1);
  const absl::Duration least = absl::Nanoseconds(std::numeric_limits<int64_t>::min() + 1);
  EXPECT_THAT(RoundTrip(absl::InfiniteDuration()), IsOkAndHolds(absl::InfiniteDuration()));
  EXPECT_THAT(RoundTrip(-absl::InfiniteDuration()), IsOkAndHolds(-absl::InfiniteDuration()));
  EXPECT_THAT(RoundTrip(absl::Hours(24 * 365) * 1000), IsOkAndHolds(most));
  EXPECT_THAT(RoundTrip(absl::Hours(24 * 365) * -1000), IsOkAndHolds(least));
  EXPECT_THAT(RoundTrip(absl::Nanoseconds(std::numeric_limits<int64_t>::max())),
              IsOkAndHolds(most));
  EXPECT_THAT(RoundTrip(absl::Nanoseconds(7) / 4), IsOkAndHolds(absl::Nanoseconds(1)));
  EXPECT_THAT(RoundTrip(absl::Nanoseconds(-7) / 4), IsOkAndHolds(absl::Nanoseconds(-1)));
  EXPECT_THAT(RoundTrip(absl::Seconds(-5)), IsOkAndHolds(absl::Seconds(-5)));
}

TEST(CodecTest, WrongBytesAreRefused) {
  EXPECT_THAT(DecodeHex<bool>("02"), StatusIs(kInvalid, HasSubstr("a bool is 2")));
  EXPECT_THAT(DecodeHex<bool>(""), StatusIs(kInvalid, HasSubstr("ends early")));
  EXPECT_THAT(DecodeHex<int64_t>("00000000000000"), StatusIs(kInvalid, HasSubstr("ends early")));
  EXPECT_THAT(DecodeHex<int8_t>("0000"), StatusIs(kInvalid, HasSubstr("1 bytes are left over")));
  EXPECT_THAT(DecodeHex<std::optional<bool>>("03"), StatusIs(kInvalid, HasSubstr("starts with 3")));
  EXPECT_THAT(DecodeHex<std::string>("05000000616263"),
              StatusIs(kInvalid, HasSubstr("ends early")));
  EXPECT_THAT(DecodeHex<std::string>("ffffffff"),
              StatusIs(kInvalid, HasSubstr("max_string_bytes")));
  EXPECT_THAT(DecodeHex<std::vector<bool>>("020000000105"),
              StatusIs(kInvalid, HasSubstr("element 1: a bool is 5")));
  EXPECT_THAT(DecodeHex<Point>("01000000"), StatusIs(kInvalid, HasSubstr("field y: ")));
}

TEST(CodecTest, CountsBeyondTheBytesAllocateNothing) {
  EXPECT_THAT(DecodeHex<std::vector<int64_t>>("ffffffff00"),
              StatusIs(kInvalid, HasSubstr("4294967295 elements of at least 8 bytes")));
  EXPECT_THAT(DecodeHex<std::vector<std::string>>("0200000000000000"),
              StatusIs(kInvalid, HasSubstr("2 elements of at least 4 bytes")));
  using Map = std::map<int64_t, std::string>;
  EXPECT_THAT(DecodeHex<Map>("000000ff"), StatusIs(kInvalid, HasSubstr("at least 12 bytes")));
}

TEST(CodecTest, KeysMustAscend) {
  using Map = std::map<uint8_t, uint8_t>;
  EXPECT_THAT(DecodeHex<Map>("0200000001000200"), IsOkAndHolds(Eq(Map{{1, 0}, {2, 0}})));
  EXPECT_THAT(DecodeHex<Map>("0200000002000100"), StatusIs(kInvalid, HasSubstr("not above")));
  EXPECT_THAT(DecodeHex<Map>("0200000001000100"), StatusIs(kInvalid, HasSubstr("key 1 of a map")));
  using Hashed = std::unordered_map<uint8_t, uint8_t>;
  EXPECT_THAT(DecodeHex<Hashed>("0200000001000100"), StatusIs(kInvalid, HasSubstr("not above")));
}

TEST(CodecTest, StringsHaveALimitOnBothSides) {
  const ValueLimits limits{.max_string_bytes = 3};
  EXPECT_THAT(EncodeOne(std::string("abcd"), Sharing::kBorrow, limits),
              StatusIs(kInvalid, HasSubstr("a string of 4 bytes, but max_string_bytes is 3")));
  EXPECT_THAT(EncodeOne(ByteString{"abcd"}, Sharing::kBorrow, limits).status().code(), kInvalid);
  const absl::StatusOr<Payload> sent = EncodeOne(std::string("abcd"));
  ASSERT_THAT(sent, gradwire::testing::IsOk());
  EXPECT_THAT(DecodeOne<std::string>(testing::Arrive(*sent), limits).status().code(), kInvalid);
}

}  // namespace
}  // namespace gradwire::rpc
