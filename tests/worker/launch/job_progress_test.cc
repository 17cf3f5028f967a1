// Progress of several workers put together, as a bar, as words, and as the summary.
#include "worker/launch/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "worker/launch/summary.h"

namespace gradwire::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Time kNow = absl::UnixEpoch();

Progress Half(int rank) {
  return {.rank = rank,
          .epoch = 5 + rank,
          .epoch_count = 10,
          .rows = 500,
          .row_count = 1000,
          .rows_per_second = 100.0 * (1 + rank),
          .loss = 0.2 + 0.2 * rank,
          .staleness = 1.0 + rank,
          .split = {.data = absl::Seconds(1),
                    .pull = absl::Seconds(1),
                    .compute = absl::Seconds(6 + rank),
                    .push = absl::Seconds(1),
                    .wait = absl::ZeroDuration()}};
}

TEST(JobProgress, PutsWorkersTogether) {
  JobProgress job(2);
  EXPECT_TRUE(job.empty());
  EXPECT_EQ(job.first_step(), std::nullopt);
  job.Take({.rank = 0}, kNow);
  EXPECT_EQ(job.first_step(), std::nullopt);
  job.Take(Half(0), kNow + absl::Seconds(1));
  job.Take(Half(1), kNow + absl::Seconds(2));
  EXPECT_EQ(job.first_step(), kNow + absl::Seconds(1));
  EXPECT_EQ(job.rows(), 1000);
  EXPECT_EQ(job.rows_per_second(), 300);
  EXPECT_NEAR(*job.loss(), 0.3, 1e-12);
  EXPECT_EQ(job.staleness(), 1.5);
  EXPECT_EQ(job.fraction(), 0.5);
  EXPECT_EQ(job.time_left(), absl::Seconds(5));  // the slower one's
  EXPECT_EQ(job.training_time(), absl::Seconds(10));
  EXPECT_EQ(job.split().compute, absl::Seconds(13));
  EXPECT_EQ(job.quality(), std::nullopt);
}

TEST(JobProgress, TheBar) {
  JobProgress job(2);
  EXPECT_EQ(job.Bar(80), "waiting for the workers");
  job.Take(Half(0), kNow);
  job.Take(Half(1), kNow);
  EXPECT_EQ(job.Bar(120),
            "[===============>              ]  50%  epoch 5/10  300 rows/s  loss 0.3  eta 5.0s  "
            "staleness 1.5");
  EXPECT_EQ(job.Words(),
            "50%, 1000 rows, epoch 5/10, 300 rows/s, loss 0.3, eta 5.0s, staleness 1.5");
  for (size_t width = 0; width < 120; ++width) {
    EXPECT_LE(job.Bar(width).size(), std::max<size_t>(width, 12)) << width;
  }
}

TEST(JobProgress, WithoutAPlanRowsAreCounted) {
  JobProgress job(1);
  job.Take({.rank = 0, .epoch = 1, .rows = 77, .rows_per_second = 7}, kNow);
  EXPECT_EQ(job.fraction(), std::nullopt);
  EXPECT_EQ(job.time_left(), std::nullopt);
  EXPECT_EQ(job.Bar(80), "77 rows  epoch 1  7 rows/s");
}

TEST(JobProgress, WhoHasEndedIsNotWaitedFor) {
  JobProgress job(2);
  Progress done = Half(1);
  done.rows = 1000;
  done.done = true;
  job.Take(Half(0), kNow);
  job.Take(done, kNow);
  EXPECT_EQ(job.rows_per_second(), 100);
  EXPECT_EQ(job.time_left(), absl::Seconds(5));
  EXPECT_EQ(job.fraction(), 0.75);
  job.OnEnd(0);
  EXPECT_EQ(job.rows_per_second(), 0);
  EXPECT_EQ(job.time_left(), std::nullopt);
  job.Take({.rank = 0, .row_count = 1000}, kNow);  // started again
  EXPECT_EQ(job.fraction(), 0.5);
}

TEST(JobProgress, WhoHasNotSpokenCounts) {
  JobProgress job(4);
  job.Take(Half(0), kNow);
  EXPECT_EQ(job.fraction(), 0.125);
}

TEST(JobProgress, AbsurdNumbersAreShown) {
  JobProgress job(2);
  Progress p = Half(0);
  p.rows = p.row_count = std::numeric_limits<int64_t>::max();
  p.rows_per_second = 1e-300;
  p.loss = std::nan("");
  p.row_count = p.rows;
  p.rows -= 5;
  job.Take(p, kNow);
  p.rank = 1;
  p.rows_per_second = 1e308;
  job.Take(p, kNow);
  job.Take({.rank = 2}, kNow);  // there is none
  EXPECT_EQ(job.rows(), std::numeric_limits<int64_t>::max());
  EXPECT_THAT(job.Words(), HasSubstr("loss nan"));
  EXPECT_THAT(job.Bar(100), HasSubstr("eta 1000h00m"));
}

TEST(JobProgress, TheLowestRanksQuality) {
  JobProgress job(3);
  Progress p = Half(2);
  p.quality = Quality{"rmse", 0.91};
  job.Take(p, kNow);
  p.rank = 1;
  p.quality = Quality{"rmse", 0.92};
  job.Take(p, kNow);
  EXPECT_EQ(job.quality(), (Quality{"rmse", 0.92}));
}

TEST(Texts, RatesAndTimes) {
  EXPECT_EQ(RateText(0), "0");
  EXPECT_EQ(RateText(3.14159), "3.14");
  EXPECT_EQ(RateText(31250.4), "31250");
  EXPECT_EQ(RateText(1.25e6), "1.25M");
  EXPECT_EQ(RateText(1e300), "1e+300");
  EXPECT_EQ(TimeText(absl::Milliseconds(45)), "45ms");
  EXPECT_EQ(TimeText(absl::Milliseconds(12345)), "12.3s");
  EXPECT_EQ(TimeText(absl::Milliseconds(59999)), "1m00s");
  EXPECT_EQ(TimeText(absl::Seconds(3900)), "1h05m");
  EXPECT_EQ(TimeText(-absl::Seconds(1)), "0ms");
  EXPECT_EQ(TimeText(absl::InfiniteDuration()), "1000h00m");
}

TEST(SummaryOf, AJobThatTrained) {
  JobProgress job(2);
  Progress p = Half(0);
  p.done = true;
  p.quality = Quality{"accuracy", 0.923};
  job.Take(p, kNow);
  job.Take(Half(1), kNow);
  const Summary summary = {.server_count = 1,
                           .worker_count = 2,
                           .time = absl::Milliseconds(12345),
                           .time_to_first_step = absl::Milliseconds(800),
                           .progress = &job};
  EXPECT_EQ(SummaryText(summary),
            "job        done: 1 server, 2 workers, 0 restarts\n"
            "quality    accuracy 0.923\n"
            "samples/s  100 (1000 rows in 10.0s)\n"
            "time       12.3s, 800ms to the first step\n"
            "step       data 11% pull 11% compute 68% push 11% wait 0%\n");
  EXPECT_EQ(SummaryLines(summary),
            "status = 0\nservers = 1\nworkers = 2\nrestarts = 0\nseconds = 12.345\n"
            "first_step_seconds = 0.8\ntraining_seconds = 10\nrows = 1000\n"
            "samples_per_second = 100\nquality_name = accuracy\nquality = 0.923\nloss = 0.3\n"
            "staleness = 1.5\ndata_percent = 10.53\npull_percent = 10.53\n"
            "compute_percent = 68.42\npush_percent = 10.53\nwait_percent = 0.00\n");
}

TEST(SummaryOf, AJobThatFailedAtOnce) {
  const JobProgress job(1);
  const Summary summary = {.exit_status = 3,
                           .error = "worker0: a\nb",
                           .worker_count = 1,
                           .restart_count = 2,
                           .time = absl::Seconds(1),
                           .progress = &job};
  EXPECT_EQ(SummaryText(summary),
            "job        failed, status 3: 0 servers, 1 worker, 2 restarts\ntime       1.0s\n");
  EXPECT_THAT(SummaryLines(summary), HasSubstr("error = worker0: a\\nb\n"));
  EXPECT_THAT(SummaryLines(summary), Not(HasSubstr("quality")));
}

}  // namespace
}  // namespace gradwire::launch
