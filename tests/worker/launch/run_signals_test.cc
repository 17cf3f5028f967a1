// gradwire run that is interrupted and killed: everybody ends in time, and nothing is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/clock.h"
#include "tests/support/wait.h"
#include "tests/worker/launch/run_process.h"

namespace gradwire::launch::testing {
namespace {

using ::gradwire::testing::WaitUntil;
using ::testing::HasSubstr;
using ::testing::Not;

// Starts a job of a server and two workers that do this, and waits until the workers are at it.
std::unique_ptr<RunProcess> StartJob(std::vector<std::string> flags, const std::string& actions) {
  flags.push_back("--workers=2");
  auto run = RunProcess::Job(std::move(flags), {"--do=say:ready+" + actions});
  EXPECT_TRUE(run->WaitForOutput("[worker0] ready\n")) << run->err();
  EXPECT_TRUE(run->WaitForOutput("[worker1] ready\n")) << run->err();
  return run;
}

TEST(RunSignals, AnInterruptEndsEverybodyInOrder) {
  for (const int number : {SIGINT, SIGTERM}) {
    const auto run = StartJob({}, "wait");
    const absl::Time start = Clock::Real().Now();
    run->Signal(number);
    EXPECT_EQ(run->WaitForEnd(), 128 + number);
    EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(5));
    // Workers first: what they still have to say to a server is heard.
    const size_t server = run->out().find("[ps0] told to end\n");
    ASSERT_NE(server, std::string::npos) << run->out();
    EXPECT_LT(run->out().find("[worker0] told to end\n"), server);
    EXPECT_LT(run->out().find("[worker1] told to end\n"), server);
    EXPECT_THAT(run->err(), HasSubstr(number == SIGINT ? "SIGINT: ending" : "SIGTERM: ending"));
    EXPECT_EQ(run->Left(), "");
  }
}

TEST(RunSignals, WhoDoesNotEndIsKilledWithAllThatItStarted) {
  const auto run = StartJob({"--grace=2s"}, "child+stuck");
  EXPECT_TRUE(WaitUntil([&] { return run->Living().size() == 7; }))  // run, guard, 3, 2 of theirs
      << run->Left(absl::ZeroDuration()) << run->out() << run->err();
  const absl::Time start = Clock::Real().Now();
  run->Signal(SIGTERM);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGTERM);
  // Well within: JobPolicy's own test has the times to the millisecond.
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(5)) << run->out();
  EXPECT_THAT(run->err(), HasSubstr("worker0 has not ended in time; killing it"));
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, AWorkerThatIsPausedEndsToo) {
  const auto run = StartJob({}, "pid+wait");
  kill(run->PidOf("worker1"), SIGSTOP);
  run->Signal(SIGINT);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGINT);
  EXPECT_THAT(run->out(), HasSubstr("[worker1] told to end\n"));
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, TheSecondInterruptEndsAtOnce) {
  const auto run = StartJob({"--grace=10h"}, "child+stuck");
  run->Signal(SIGINT);
  ASSERT_TRUE(run->WaitForErrors("SIGINT: ending the job"));
  run->Signal(SIGINT);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGINT);
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, AnInterruptAfterTheWorkersIsNone) {
  const auto run = RunProcess::Job(
      {"--workers=1", "--grace=1s", "--server-arg=--do=stuck", "--progress-interval=10ms"},
      {"--do=say:done"});
  ASSERT_TRUE(run->WaitForOutput("[worker0] done\n"));
  EXPECT_TRUE(WaitUntil([&] { return run->Living().size() == 3; }));  // run, guard, ps0
  run->Signal(SIGINT);
  const int status = run->WaitForEnd();
  // Its end may not have been seen yet.
  EXPECT_TRUE(status == 0 || status == 128 + SIGINT) << status;
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, KilledItLeavesNothing) {
  const auto run = StartJob({}, "child+stuck");
  EXPECT_TRUE(WaitUntil([&] { return run->Living().size() == 7; }))
      << run->Left(absl::ZeroDuration()) << run->out() << run->err();
  EXPECT_EQ(run->Files().size(), 1u);
  run->Signal(SIGKILL);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGKILL);
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, KilledWhileItStartsItLeavesNothing) {
  for (size_t count = 1; count <= 6; ++count) {
    const auto run = RunProcess::Job({"--workers=3"}, {"--do=child+stuck"});
    EXPECT_TRUE(WaitUntil([&] { return run->Living().size() >= count; }));
    run->Signal(SIGKILL);
    EXPECT_EQ(run->WaitForEnd(), 128 + SIGKILL);
    EXPECT_EQ(run->Left(), "") << count;
  }
}

TEST(RunSignals, WithoutItsGuardAJobRunsToItsEnd) {
  const auto run = StartJob({}, "pid+wait");
  for (const pid_t pid : run->Living()) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
    std::string name;
    file >> name;
    if (name == "gw-guard") kill(pid, SIGKILL);
  }
  for (const char* name : {"worker0", "worker1"}) kill(run->PidOf(name), SIGTERM);
  EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, AReaderThatDoesNotReadHoldsNothingUp) {
  const auto run = RunProcess::Job({"--workers=2", "--grace=2s"}, {"--do=err:ready+flood"},
                                   {.stdout_unread = true});
  ASSERT_TRUE(run->WaitForErrors("[worker1] ready"));
  ASSERT_TRUE(run->WaitForErrors("[worker0] ready"));
  const absl::Time start = Clock::Real().Now();
  run->Signal(SIGTERM);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGTERM);
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(7));
  EXPECT_EQ(run->Left(), "");
}

TEST(RunSignals, AReaderThatWentAwayEndsNothing) {
  const TestFolder folder;
  const auto run = RunProcess::Job({"--workers=2"}, {"--do=say:a+say:b+train+err:trained"},
                                   {.stdout_to_nobody = true});
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->err(), HasSubstr("[worker0] trained\n"));
  EXPECT_EQ(run->Left(), "");
}

}  // namespace
}  // namespace gradwire::launch::testing
