// Data files that are as they should be, and all the ways in which they aren't.
#include "worker/data/files.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/fs_sim.h"
#include "tests/support/matchers.h"
#include "worker/data/digit_files.h"
#include "worker/data/rating_files.h"

namespace gradwire::data {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string DigitLine(const std::string& pixel, const std::string& label) {
  std::string line = pixel;
  for (int i = 1; i < 784; ++i) line += ",7";
  return absl::StrCat(line, ",", label, "\n");
}

std::string Big(uint32_t word) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  return bytes;
}

TEST(DataFile, IsUnpackedWhateverItsName) {
  SimFileSystem fs;
  ASSERT_THAT(fs.MakeDirs("/d"), IsOk());
  ASSERT_THAT(fs.WriteAtomically("/d/plain", "text"), IsOk());
  const std::string packed = Gzip(std::string(100000, 'x'));
  ASSERT_THAT(fs.WriteAtomically("/d/packed", packed), IsOk());
  ASSERT_THAT(fs.WriteAtomically("/d/cut", packed.substr(0, packed.size() / 2)), IsOk());
  std::string flipped = packed;
  flipped[flipped.size() - 6] ^= 1;  // of the checksum
  ASSERT_THAT(fs.WriteAtomically("/d/flipped", flipped), IsOk());
  EXPECT_THAT(ReadDataFile("/d/plain", fs), IsOkAndHolds("text"));
  EXPECT_THAT(ReadDataFile("/d/packed", fs), IsOkAndHolds(std::string(100000, 'x')));
  EXPECT_THAT(ReadDataFile("/d/cut", fs).status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("/d/cut, byte"), HasSubstr("cut short"))));
  EXPECT_THAT(ReadDataFile("/d/flipped", fs).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
  EXPECT_THAT(ReadDataFile("/d/none", fs).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("scripts/setup")));
}

TEST(Digits, AreParsedStrictly) {
  const auto digits = ParseCsvDigits("f.csv", DigitLine("255", "3") + DigitLine("0", "9"));
  ASSERT_THAT(digits.status(), IsOk());
  EXPECT_EQ(digits->labels, (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(digits->pixels.size(), 2 * 784u);
  EXPECT_EQ(digits->pixels[0], 255);
  EXPECT_THAT(ParseCsvDigits("f.csv", DigitLine("1", "3") + DigitLine("256", "3")).status(),
              StatusIs(kInvalid, HasSubstr("f.csv, line 2, column 1: \"256\" is no whole number")));
  EXPECT_THAT(ParseCsvDigits("f.csv", DigitLine("1", "10")).status(),
              StatusIs(kInvalid, HasSubstr("line 1, column 785")));
  EXPECT_THAT(ParseCsvDigits("f.csv", DigitLine("1x", "1")).status(), StatusIs(kInvalid));
  EXPECT_THAT(ParseCsvDigits("f.csv", DigitLine("", "1")).status(), StatusIs(kInvalid));
  EXPECT_THAT(ParseCsvDigits("f.csv", "1,2,3\n").status(),
              StatusIs(kInvalid, HasSubstr("line 1: it has 3 of 785 columns")));
  EXPECT_THAT(ParseCsvDigits("f.csv", DigitLine("1", "1,1")).status(),
              StatusIs(kInvalid, HasSubstr("more than 785 columns")));
  EXPECT_THAT(ParseCsvDigits("f.csv", "").status(), StatusIs(kInvalid, HasSubstr("no lines")));
}

TEST(Digits, ReadTheStandardFiles) {
  const std::string images = Big(0x803) + Big(2) + Big(28) + Big(28) + std::string(2 * 784, '\x05');
  const std::string labels = Big(0x801) + Big(2) + std::string("\x03\x09", 2);
  const auto digits = ParseIdxDigits("i", images, "l", labels);
  ASSERT_THAT(digits.status(), IsOk());
  EXPECT_EQ(digits->labels, (std::vector<int64_t>{3, 9}));
  EXPECT_THAT(ParseIdxDigits("i", images.substr(0, images.size() - 1), "l", labels).status(),
              StatusIs(kInvalid, HasSubstr("it says 2 images and has 1567 bytes")));
  EXPECT_THAT(ParseIdxDigits("i", labels, "l", labels).status(),
              StatusIs(kInvalid, HasSubstr("i: ")));
  EXPECT_THAT(ParseIdxDigits("i", images, "l", images).status(),
              StatusIs(kInvalid, HasSubstr("l: ")));
  EXPECT_THAT(ParseIdxDigits("i", images, "l", Big(0x801) + Big(2) + "\x03\x0a").status(),
              StatusIs(kInvalid, HasSubstr("label 1 is 10")));
  EXPECT_THAT(ParseIdxDigits("i", "", "l", "").status(), StatusIs(kInvalid));
  EXPECT_THAT(
      ParseIdxDigits("i", Big(0x803) + Big(0xffffffff) + Big(28) + Big(28), "l", labels).status(),
      StatusIs(kInvalid));

  SimFileSystem fs;
  ASSERT_THAT(fs.MakeDirs("/d"), IsOk());
  EXPECT_THAT(HasIdxFiles("/d", fs), IsOkAndHolds(false));
  ASSERT_THAT(fs.WriteAtomically("/d/train-images-idx3-ubyte.gz", Gzip(images)), IsOk());
  EXPECT_THAT(HasIdxFiles("/d", fs), IsOkAndHolds(true));
  EXPECT_THAT(ReadIdxDigits("/d", "train", fs).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("train-labels")));
  ASSERT_THAT(fs.WriteAtomically("/d/train-labels-idx1-ubyte", labels), IsOk());
  EXPECT_THAT(ReadIdxDigits("/d", "train", fs).status(), IsOk());
}

TEST(Ratings, AreParsedStrictly) {
  const auto ratings = ParseRatings(
      "f",
      "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t9\t3.5\t88\r\n\n1\t2\t5\t0");
  ASSERT_THAT(ratings.status(), IsOk());
  EXPECT_EQ(ratings->users, (std::vector<int64_t>{7, 1}));
  EXPECT_EQ(ratings->items, (std::vector<int64_t>{9, 2}));
  EXPECT_EQ(ratings->ratings, (std::vector<float>{3.5, 5}));
  EXPECT_THAT(
      ParseRatings("f", "1\t2\t6\t0").status(),
      StatusIs(kInvalid, HasSubstr("f, line 1, column 3: \"6\" is no number from 0.5 to 5")));
  EXPECT_THAT(ParseRatings("f", "1\t2\tnan\t0").status(),
              StatusIs(kInvalid, HasSubstr("column 3")));
  EXPECT_THAT(ParseRatings("f", "-1\t2\t3\t0").status(), StatusIs(kInvalid, HasSubstr("column 1")));
  EXPECT_THAT(ParseRatings("f", "1\t2\t3").status(),
              StatusIs(kInvalid, HasSubstr("3 of 4 columns")));
  EXPECT_THAT(ParseRatings("f", "").status(), StatusIs(kInvalid, HasSubstr("no ratings")));
}

}  // namespace
}  // namespace gradwire::data
