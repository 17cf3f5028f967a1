#include "rpc/base/fault.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {

absl::Status PassA() {
  GW_RETURN_IF_ERROR(GW_FAULT_POINT("test.a"));
  return absl::OkStatus();
}

#if GW_FAULT_POINTS_ENABLED

TEST(FaultTest, PointsAreOkWithoutAPlan) { EXPECT_TRUE(PassA().ok()); }

TEST(FaultTest, AnUnnamedPointIsCountedOnly) {
  FaultPlan plan;
  plan.At("test.other").Fail(absl::DataLossError("x"));
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(plan.passed_count("test.a"), 1u);
  EXPECT_EQ(plan.fired_count("test.a"), 0u);
  EXPECT_EQ(plan.passed_count("never"), 0u);
}

TEST(FaultTest, FailFiresEachTime) {
  FaultPlan plan;
  plan.At("test.a").Fail(absl::DataLossError("torn"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(PassA(), absl::DataLossError("torn"));
  EXPECT_EQ(plan.fired_count("test.a"), 3u);
}

TEST(FaultTest, NthFiresOnce) {
  FaultPlan plan;
  plan.At("test.a").Nth(2).Fail(absl::UnavailableError("x"));
  EXPECT_TRUE(PassA().ok());
  EXPECT_FALSE(PassA().ok());
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(plan.fired_count("test.a"), 1u);
  EXPECT_EQ(plan.passed_count("test.a"), 3u);
}

TEST(FaultTest, NthWithTimesAndSeveralRules) {
  FaultPlan plan;
  plan.At("test.a").Nth(2).Times(2).Fail(absl::UnavailableError("first"));
  plan.At("test.a").Nth(3).Times(2).Fail(absl::InternalError("second"));
  std::string seen;
  for (int i = 0; i < 6; ++i) {
    const absl::Status status = PassA();
    absl::StrAppend(&seen, status.ok() ? "." : status.message().substr(0, 1));
  }
  EXPECT_EQ(seen, ".ffss.");
}

TEST(FaultTest, CallRunsUnderNoLockAndDecides) {
  FaultPlan plan;
  int calls = 0;
  plan.At("test.a").Call([&]() -> absl::Status {
    ++calls;
    plan.At("test.b").Fail(absl::AbortedError("armed by the first"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(GW_FAULT_POINT("test.b").code(), absl::StatusCode::kAborted);
}

TEST(FaultTest, APlanEndsWithItsScope) {
  {
    FaultPlan plan;
    plan.At("test.a").Fail(absl::AbortedError("x"));
    EXPECT_FALSE(PassA().ok());
  }
  EXPECT_TRUE(PassA().ok());
  FaultPlan next;
  EXPECT_TRUE(PassA().ok());
}

TEST(FaultDeathTest, KillIsSigkill) {
  EXPECT_EXIT(
      {
        FaultPlan plan;
        plan.At("test.a").Nth(2).Kill();
        (void)PassA();
        (void)PassA();
        exit(0);
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST(FaultDeathTest, TwoPlansAreABugOfTheTest) {
  EXPECT_DEATH(
      {
        FaultPlan one;
        FaultPlan two;
      },
      "active.plan");
}

TEST(FaultTest, RulesFromText) {
  FaultPlan plan;
  ASSERT_TRUE(plan.AddFromText("test.a@2=fail,test.b=fail:DATA_LOSS,").ok());
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(PassA(), absl::UnavailableError("injected at test.a"));
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(GW_FAULT_POINT("test.b").code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(plan.AddFromText("").ok());
}

TEST(FaultTest, BadTextNamesItselfAndAddsNothing) {
  FaultPlan plan;
  for (const absl::string_view bad :
       {"test.a", "=kill", "test.a=burn", "test.a@0=kill", "test.a@x=kill", "test.a@=kill",
        "test.a=fail:NOPE", "test.a=fail:OK", "test.a=fail:", "test.a=kill now"}) {
    const absl::Status status = plan.AddFromText(absl::StrCat("test.a=fail,", bad));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find(bad), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(PassA().ok());
}

TEST(FaultTest, ThreadsPassWhilePlansComeAndGo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) (void)PassA();
    });
  }
  for (int i = 0; i < 200; ++i) {
    FaultPlan plan;
    plan.At("test.a").Times(3).Fail(absl::AbortedError("x"));
    for (int j = 0; j < 3; ++j) (void)PassA();
    EXPECT_GE(plan.passed_count("test.a"), 3u);
    EXPECT_EQ(plan.fired_count("test.a"), 3u);
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
}

#else

TEST(FaultTest, PointsAreCompiledOut) {
  FaultPlan plan;
  plan.At("test.a").Fail(absl::AbortedError("x"));
  EXPECT_TRUE(PassA().ok());
  EXPECT_EQ(plan.passed_count("test.a"), 0u);
}

#endif

}  // namespace
}  // namespace gradwire
