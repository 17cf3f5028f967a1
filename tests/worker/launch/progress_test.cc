// Progress lines: what is written is read back, and anything else is refused with what is wrong.
#include "worker/launch/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/matchers.h"

namespace gradwire::launch {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

Progress Everything() {
  return {.rank = 3,
          .epoch = 2,
          .epoch_count = 10,
          .rows = 9600,
          .row_count = 40000,
          .rows_per_second = 31250.5,
          .loss = 0.41,
          .staleness = 1.5,
          .split = {.data = absl::Milliseconds(100),
                    .pull = absl::Seconds(2),
                    .compute = absl::Microseconds(7),
                    .push = absl::Hours(30),
                    .wait = absl::ZeroDuration()},
          .done = true,
          .quality = Quality{"accuracy", 0.923},
          .error = "ps0 \"died\"\nhere = é"};
}

TEST(ProgressLine, IsReadBack) {
  const Progress all = Everything();
  const absl::StatusOr<Progress> again = ParseProgress(EncodeProgress(all));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->rank, 3);
  EXPECT_EQ(again->epoch, 2);
  EXPECT_EQ(again->epoch_count, 10);
  EXPECT_EQ(again->rows, 9600);
  EXPECT_EQ(again->row_count, 40000);
  EXPECT_EQ(again->rows_per_second, 31250.5);
  EXPECT_EQ(again->loss, 0.41);
  EXPECT_EQ(again->staleness, 1.5);
  EXPECT_EQ(again->split, all.split);
  EXPECT_TRUE(again->done);
  EXPECT_EQ(again->quality, all.quality);
  EXPECT_EQ(again->error, all.error);
}

TEST(ProgressLine, LooksLikeThis) {
  EXPECT_EQ(EncodeProgress({.rank = 1, .loss = 0.5, .split = {.pull = absl::Milliseconds(1500)}}),
            "progress=1 rank=1 epoch=0 epochs=0 rows=0 row_count=0 rows_per_second=0 loss=0.5 "
            "data=0 pull=1.5 compute=0 push=0 wait=0");
  EXPECT_THAT(EncodeProgress({.error = "a b=c\n"}), HasSubstr(" error=a\\040b=c\\n"));
}

TEST(ProgressLine, OnlyTheRankMustBeThere) {
  const absl::StatusOr<Progress> progress = ParseProgress("progress=1 rank=0");
  ASSERT_THAT(progress, IsOk());
  EXPECT_FALSE(progress->loss || progress->staleness || progress->quality || progress->error);
  EXPECT_FALSE(progress->done);
  EXPECT_EQ(progress->split, StepSplit());
}

TEST(ProgressLine, ALossThatDivergedTravels) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double loss : {infinity, -infinity, 1e300, 5e-324}) {
    const auto again = ParseProgress(EncodeProgress({.loss = loss}));
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->loss, loss);
  }
  const auto again = ParseProgress(
      EncodeProgress({.loss = std::nan(""), .quality = Quality{"rmse", std::nan("")}}));
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(std::isnan(*again->loss));
  EXPECT_TRUE(std::isnan(again->quality->value));
}

TEST(ProgressLine, WhatIsOutOfRangeIsBroughtIntoIt) {
  const auto again = ParseProgress(
      EncodeProgress({.rank = -1,
                      .epoch = -1,
                      .rows = -5,
                      .rows_per_second = std::nan(""),
                      .staleness = -2,
                      .split = {.data = -absl::Seconds(1), .pull = absl::InfiniteDuration()},
                      .quality = Quality{"My Score", 1},
                      .error = std::string(100'000, ' ')}));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->rank, 0);
  EXPECT_EQ(again->rows, 0);
  EXPECT_EQ(again->rows_per_second, 0);
  EXPECT_EQ(again->staleness, 0);
  EXPECT_EQ(again->split.data, absl::ZeroDuration());
  EXPECT_EQ(again->quality, std::nullopt);
  EXPECT_EQ(again->error, std::string(kMaxProgressErrorBytes, ' '));
}

TEST(ProgressLine, TheLongestFitsIntoOneWrite) {
  const double wide = -1.2345678901234567e-300;
  Progress p = Everything();
  p.epoch = p.epoch_count = p.rows = p.row_count = std::numeric_limits<int64_t>::max();
  p.rows_per_second = 1.2345678901234567e300;
  p.loss = wide;
  p.quality = Quality{std::string(kMaxQualityNameBytes, 'q'), wide};
  p.error = std::string(kMaxProgressErrorBytes, '\x01');
  const std::string line = EncodeProgress(p);
  EXPECT_LT(line.size(), kMaxProgressLineBytes);
  EXPECT_THAT(ParseProgress(line), IsOk());
}

TEST(ProgressLine, AnErrorIsCutBetweenCharacters) {
  std::string text(kMaxProgressErrorBytes - 1, 'a');
  const auto again = ParseProgress(EncodeProgress({.error = text + "é"}));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->error, text);
}

TEST(ProgressLine, AnythingElseIsRefused) {
  const struct {
    std::string line;
    std::string why;
  } cases[] = {
      {"", "no field"},
      {"rank=0", "begin with progress=1"},
      {"progress=1", "rank is missing"},
      {"progress=2 rank=0", "same source"},
      {"progress=1 rank=0 ", "no field"},
      {"progress=1  rank=0", "no field"},
      {"progress=1 rank=0 speed=3", "speed=3"},
      {"progress=1 rank", "no field"},
      {"progress=1 rank=0 rank=0", "rank is there twice"},
      {"progress=1 rank=-1", "rank=-1"},
      {"progress=1 rank=4096", "rank=4096"},
      {"progress=1 rank=0 rows=1.5", "rows=1.5"},
      {"progress=1 rank=0 rows=99999999999999999999", "rows="},
      {"progress=1 rank=0 rows_per_second=inf", "rows_per_second=inf"},
      {"progress=1 rank=0 loss=low", "loss=low"},
      {"progress=1 rank=0 staleness=-1", "staleness=-1"},
      {"progress=1 rank=0 pull=1e10", "pull=1e10"},
      {"progress=1 rank=0 done=0", "done=0"},
      {"progress=1 rank=0 quality=1", "belong together"},
      {"progress=1 rank=0 quality_name=rmse", "belong together"},
      {"progress=1 rank=0 quality_name=R quality=1", "quality_name=R"},
      {"progress=1 rank=0 error=\\x", "error="},
      {"progress=1 rank=0 error=" + std::string(kMaxProgressErrorBytes + 1, 'x'), "error="},
      {"progress=1 rank=0 error=" + std::string(kMaxProgressLineBytes, 'x'), "at most 4095"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    EXPECT_THAT(ParseProgress(c.line),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.why)));
  }
}

TEST(ProgressLine, WhatItShowsOfABadLineIsEscaped) {
  const absl::Status status = ParseProgress("progress=1 rank=\x1b[31m").status();
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace gradwire::launch
