#include "worker/launch/line_splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rpc/base/rng.h"

namespace gradwire::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) splitter.Add(piece, lines);
  splitter.Finish(lines);
  return lines;
}

TEST(LineSplitter, LinesInAnyPieces) {
  EXPECT_THAT(Split({"a\nb", "c", "\n\nd"}), ElementsAre("a", "bc", "", "d"));
  EXPECT_THAT(Split({}), IsEmpty());
  EXPECT_THAT(Split({"", "\n"}), ElementsAre(""));
}

TEST(LineSplitter, ReturnsEndLinesToo) {
  EXPECT_THAT(Split({"a\r\nb\r", "\nc\r\n\r\n"}), ElementsAre("a", "b", "c", ""));
  EXPECT_THAT(Split({"\r10%\r", "20%\r\r30%\n"}), ElementsAre("10%", "20%", "30%"));
  EXPECT_THAT(Split({"a\r"}), ElementsAre("a"));
}

TEST(LineSplitter, AnyByteBelongsToItsLine) {
  const std::string bytes("\0\xff\x1b\t", 4);
  EXPECT_THAT(Split({bytes + "\n"}), ElementsAre(bytes));
}

TEST(LineSplitter, LongLinesAreCut) {
  const size_t limit = LineSplitter::kMaxLineBytes;
  const std::vector<std::string> lines = Split({std::string(2 * limit, 'x'), "y\nz"});
  EXPECT_THAT(lines, ElementsAre(std::string(limit, 'x'), std::string(limit, 'x'), "y", "z"));
  EXPECT_THAT(Split({std::string(limit, 'x') + "\n"}), ElementsAre(std::string(limit, 'x')));
}

TEST(LineSplitter, PiecesMakeNoDifference) {
  SeededRng rng(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "ab\r\n"[rng.Below(4)];
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + rng.Below(5);
      pieces.push_back(text.substr(at, count));
      at += count;
    }
    EXPECT_EQ(Split(pieces), Split({text})) << round;
  }
}

}  // namespace
}  // namespace gradwire::launch
