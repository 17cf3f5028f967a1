// gradwire run with processes that play servers and workers: what it starts, shows and ends with.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "tests/support/matchers.h"
#include "tests/worker/launch/run_process.h"

namespace gradwire::launch::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::map<std::string, std::string> ReadSummary(const std::string& path) {
  const auto text = FileSystem::Real().ReadAll(path, 1 << 20);
  EXPECT_THAT(text, IsOk());
  std::map<std::string, std::string> values;
  if (!text.ok()) return values;
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    values.insert(absl::StrSplit(line, absl::MaxSplits(" = ", 1)));
  }
  return values;
}

double Number(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  double number = -1;
  if (found == values.end() || !absl::SimpleAtod(found->second, &number)) return -1;
  return number;
}

TEST(Run, AJobRunsToItsEnd) {
  const TestFolder folder;
  const std::string summary = folder.path() + "/summary";
  const auto run = RunProcess::Job({"--servers=2", "--workers=3", "--summary=" + summary},
                                   {"--do=say:hello+train"});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->out() << run->err();
  for (const char* words : {"[worker0] hello\n", "[worker1] hello\n", "[worker2] hello\n",
                            "[ps0] told to end\n", "[ps1] told to end\n", "2 servers, 3 workers",
                            "quality    accuracy 0.9\n", "samples/s  300 (300 rows in 1.0s)",
                            "step       data 10% pull 20% compute 60% push 10% wait 0%"}) {
    EXPECT_THAT(run->out(), HasSubstr(words));
  }
  EXPECT_EQ(run->err(), "");
  EXPECT_EQ(run->Left(), "");
  const auto values = ReadSummary(summary);
  EXPECT_EQ(Number(values, "status"), 0);
  EXPECT_EQ(Number(values, "workers"), 3);
  EXPECT_EQ(Number(values, "rows"), 300);
  EXPECT_EQ(Number(values, "samples_per_second"), 300);
  EXPECT_EQ(Number(values, "quality"), 0.9);
  EXPECT_EQ(Number(values, "loss"), 0.125);
  EXPECT_EQ(Number(values, "staleness"), 1.5);
  EXPECT_EQ(Number(values, "compute_percent"), 60);
  EXPECT_GT(Number(values, "first_step_seconds"), 0);
  EXPECT_LE(Number(values, "first_step_seconds"), Number(values, "seconds"));
}

TEST(Run, ProcessesInheritWhatTheyShouldAndNoMore) {
  const auto run =
      RunProcess::Job({"--servers=1", "--workers=1", "--server-arg=--listen=127.0.0.1:0",
                       "--server-arg=--do=token+fds"},
                      {"--do=token+fds"});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->out() << run->err();
  // 0600 in hexadecimal; 32 bytes in hexadecimal.
  EXPECT_THAT(run->out(), HasSubstr("[worker0] token 180 64\n"));
  EXPECT_THAT(run->out(), HasSubstr("[ps0] token 180 64\n"));
  EXPECT_THAT(run->out(), HasSubstr("[worker0] fds 0 1 2 3\n"));
  EXPECT_THAT(run->out(), HasSubstr("[ps0] fds 0 1 2\n"));
}

TEST(Run, WithoutServersWorkersRunAlone) {
  const auto run = RunProcess::Job({"--servers=0", "--workers=2"}, {});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
  EXPECT_THAT(run->out(), HasSubstr("0 servers, 2 workers"));
}

TEST(Run, TheFirstFailureIsTheJobs) {
  const TestFolder folder;
  const std::string summary = folder.path() + "/summary";
  const auto run =
      RunProcess::Job({"--workers=2", "--summary=" + summary},
                      {"--only=1", "--do=err:warming up+err:no file ratings.csv+say:bye+exit:7"});
  EXPECT_EQ(run->WaitForEnd(), 7);
  EXPECT_THAT(run->err(), HasSubstr("[worker1] no file ratings.csv\n"));
  EXPECT_TRUE(absl::EndsWith(run->err(),
                             "gradwire run: worker1 ended with status 7: no file ratings.csv\n"))
      << run->err();
  // The other one went on to its end.
  EXPECT_THAT(run->out(), AllOf(HasSubstr("failed, status 7"), HasSubstr("accuracy 0.9")));
  const auto values = ReadSummary(summary);
  EXPECT_EQ(Number(values, "status"), 7);
  EXPECT_EQ(values.at("error"), "worker1 ended with status 7: no file ratings.csv");
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, ASignalIsAStatusAbove128) {
  const auto run = RunProcess::Job({"--workers=1"}, {"--do=kill:6"});
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGABRT);
  EXPECT_THAT(run->err(), HasSubstr("worker0 was killed by signal 6 (Aborted)"));
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, WhatAWorkerSaysOfItsFailureGoesBeforeItsLastLine) {
  const auto run = RunProcess::Job({"--workers=1"}, {"--do=last:loss is NaN+err:noise+exit:1"});
  EXPECT_EQ(run->WaitForEnd(), 1);
  EXPECT_TRUE(
      absl::EndsWith(run->err(), "gradwire run: worker0 ended with status 1: loss is NaN\n"));
}

TEST(Run, AFailedWorkerIsStartedAgain) {
  const TestFolder folder;
  const std::string once = folder.path() + "/once";
  const auto run = RunProcess::Job({"--workers=2", "--max-restarts=1"},
                                   {"--only=1", "--do=once:" + once + "+say:again+train"});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
  EXPECT_THAT(run->err(), HasSubstr("worker1 ended with status 3; starting it again (1 of 1)\n"));
  EXPECT_THAT(run->out(), AllOf(HasSubstr("[worker1] again\n"), HasSubstr("1 restart\n"),
                                HasSubstr("200 rows")));
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, RestartsAreCountedAndEnd) {
  const auto run =
      RunProcess::Job({"--servers=0", "--workers=1", "--max-restarts=2"}, {"--do=say:try+exit:5"});
  EXPECT_EQ(run->WaitForEnd(), 5);
  size_t tries = 0;
  for (const auto line : absl::StrSplit(run->out(), '\n')) tries += line == "[worker0] try" ? 1 : 0;
  EXPECT_EQ(tries, 3u);
  EXPECT_THAT(run->out(), HasSubstr("2 restarts"));
}

TEST(Run, ALostServerIsTheJobsError) {
  const auto run = RunProcess::Job({"--servers=2", "--workers=2", "--server-arg=--do=pid"},
                                   {"--resume-window=500ms", "--do=say:training+server"});
  ASSERT_TRUE(run->WaitForOutput("[worker0] training")) << run->err();
  ASSERT_TRUE(run->WaitForOutput("[worker1] training"));
  const pid_t server = run->PidOf("ps0");
  ASSERT_GT(server, 1);
  const absl::Time start = Clock::Real().Now();
  kill(server, SIGKILL);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGKILL);
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(10));
  EXPECT_THAT(run->err(), ContainsRegex("\\[worker0\\] lost: .*ps0"));
  EXPECT_TRUE(absl::EndsWith(run->err(), "gradwire run: ps0 was killed by signal 9 (Killed)\n"))
      << run->err();
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, WorkersThatDoNotMissALostServerAreEnded) {
  const auto run =
      RunProcess::Job({"--workers=2", "--server-arg=--do=pid", "--server-loss=100ms", "--grace=1s"},
                      {"--do=say:training+stuck"});
  ASSERT_TRUE(run->WaitForOutput("[worker0] training")) << run->err();
  ASSERT_TRUE(run->WaitForOutput("[worker1] training"));
  kill(run->PidOf("ps0"), SIGKILL);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGKILL);
  EXPECT_THAT(run->err(), HasSubstr("worker1 has not ended in time; killing it"));
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, AServerThatLeavesEarlyIsAnError) {
  const auto run =
      RunProcess::Job({"--workers=1", "--server-arg=--do=exit:0", "--server-loss=100ms"},
                      {"--do=wait", "--connect-timeout=1s"});
  EXPECT_EQ(run->WaitForEnd(), 1);
  EXPECT_THAT(run->err(), HasSubstr("ps0 ended with status 0 before the workers had ended"));
}

TEST(Run, AServerThatDoesNotEndIsKilledAndNoFailure) {
  const auto run = RunProcess::Job({"--workers=1", "--server-arg=--do=stuck", "--grace=500ms"}, {});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
  EXPECT_THAT(run->err(), HasSubstr("ps0 has not ended in time; killing it"));
  EXPECT_EQ(run->Left(), "");
}

TEST(Run, LogsOfEachProcess) {
  const TestFolder folder;
  const std::string logs = folder.path() + "/a/b";
  const auto run = RunProcess::Job({"--workers=1", "--log-dir=" + logs}, {"--do=say:one+err:two"});
  EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
  const auto text = FileSystem::Real().ReadAll(logs + "/worker0.log", 1 << 20);
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, AllOf(HasSubstr("one\n"), HasSubstr("two\n"), Not(HasSubstr("worker0"))));
  EXPECT_THAT(FileSystem::Real().ReadAll(logs + "/ps0.log", 1 << 20),
              gradwire::testing::IsOkAndHolds("told to end\n"));
}

TEST(Run, PlainProgressLinesWhereThereIsNoTerminal) {
  const auto run = RunProcess::Job({"--workers=1", "--progress-interval=10ms"}, {});
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->out(), ContainsRegex("\\[run\\] .*rows, epoch [12]/2, .*loss "));
  const auto silent = RunProcess::Job({"--workers=1", "--progress-interval=inf"}, {});
  EXPECT_EQ(silent->WaitForEnd(), 0);
  EXPECT_THAT(silent->out(), Not(HasSubstr("[run]")));
}

TEST(Run, WhatTheLauncherLogsIsALineLikeOthers) {
  const auto run =
      RunProcess::Job({"--servers=0", "--workers=1"}, {"--job-id=other", "--join-timeout=500ms"});
  EXPECT_EQ(run->WaitForEnd(), 1);
  EXPECT_THAT(run->err(), ContainsRegex("\\[launcher\\] time=.* level=warning .*agent=.*worker0"));
  EXPECT_THAT(run->err(), HasSubstr("gradwire run: worker0 ended with status 1: "));
}

TEST(Run, ABadProgressLineIsSaidOnce) {
  const auto run =
      RunProcess::Job({"--workers=1"}, {"--do=progress:rank=5+progress:speed=1+progress:x+train"});
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_EQ(run->err(), "gradwire run: worker0: progress line: it must begin with progress=1\n");
  EXPECT_THAT(run->out(), HasSubstr("accuracy"));
}

}  // namespace
}  // namespace gradwire::launch::testing
