#include "rpc/base/log.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "rpc/base/log_testutil.h"
#include "rpc/base/secret.h"
#include "rpc/base/sim.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {

TEST(LogTest, FormatsOneLineOfPairs) {
  LogRecord record;
  record.severity = LogSeverity::kWarning;
  record.file = "/src/gradwire/rpc/agent/session.cc";
  record.line = 12;
  record.wall_nanos = 1'700'000'000'123'456'789;
  record.thread_id = 7;
  record.message = "session cut";
  record.fields = {{"peer", "worker-1"}, {"why", "a=b \"c\""}, {"empty", ""}};
  record.suppressed_count = 3;
  EXPECT_EQ(record.Format(),
            "time=2023-11-14T22:13:20.123456Z level=warning tid=7 at=agent/session.cc:12 "
            "msg=\"session cut\" peer=worker-1 why=\"a=b \\\"c\\\"\" empty=\"\" suppressed=3");
}

TEST(LogTest, NothingForgesALineOrReachesTheTerminal) {
  ScopedLogCapture log;
  const std::string evil = "x\nlevel=error msg=\"y\"\x1b[2J\r\0\xff\xe2\x80\xae";
  GW_LOG(INFO) << "from " << evil << Kv("peer", Escaped(evil)) << Kv("raw", evil);
  ASSERT_EQ(log.records().size(), 1u);
  const std::string line = log.records()[0].Format();
  for (const char c : line) {
    EXPECT_TRUE(c >= ' ' && c < 0x7f) << static_cast<int>(c);
  }
  EXPECT_NE(line.find("peer=\"x\\nlevel=error msg=\\\"y\\\"\\x1b[2J"), std::string::npos) << line;
}

TEST(LogTest, EscapedCutsAndEscapes) {
  std::ostringstream out;
  out << Escaped("a\"\n\x01z");
  EXPECT_EQ(out.str(), "a\\\"\\n\\x01z");
  const std::string full(kMaxEscapedBytes, 'a');
  EXPECT_EQ(EscapedString(full), full);
  EXPECT_EQ(EscapedString(full + "b"), full + "...");
  // In a status the escaping happens here, in a log line once at its end.
  StatusContext context(absl::NotFoundError("no"));
  context << "peer " << Escaped("a\nb");
  EXPECT_EQ(context.Build().message(), "peer a\\nb: no");
}

TEST(LogTest, SizesAreLimited) {
  ScopedLogCapture log;
  {
    auto message = std::string(1 << 20, 'm');
    GW_LOG(INFO) << message << Kv("field", std::string(1 << 20, 'f')) << Kv("a", 1) << Kv("b", 1)
                 << Kv("c", 1) << Kv("d", 1) << Kv("e", 1) << Kv("f", 1) << Kv("g", 1) << Kv("h", 1)
                 << Kv("i", 1) << Kv("j", 1) << Kv("k", 1) << Kv("l", 1) << Kv("m", 1) << Kv("n", 1)
                 << Kv("o", 1) << Kv("p", 1) << Kv("q", 1);
  }
  const LogRecord record = log.records().at(0);
  EXPECT_EQ(record.message.size(), kMaxLogMessageBytes + 3);
  EXPECT_EQ(record.fields.size(), kMaxLogFieldCount);
  EXPECT_EQ(record.fields[0].value.size(), kMaxLogFieldBytes + 3);
}

TEST(LogTest, SecretsPrintAsSuch) {
  ScopedLogCapture log;
  Secret token("hunter2");
  GW_LOG(ERROR) << "token " << token << Kv("token", token);
  EXPECT_TRUE(log.Contains("msg=\"token <secret>\" token=<secret>"));
  EXPECT_FALSE(log.Contains("hunter2"));
  EXPECT_EQ(token.Reveal(), "hunter2");
  Secret moved(std::move(token));
  EXPECT_EQ(moved.Reveal(), "hunter2");
  EXPECT_TRUE(token.empty());  // NOLINT(bugprone-use-after-move): promised
  Secret assigned;
  assigned = moved;
  EXPECT_EQ(assigned.Reveal(), "hunter2");
}

TEST(LogTest, ValuesKeepTheirForms) {
  ScopedLogCapture log;
  GW_LOG(INFO) << "v" << Kv("flag", true) << Kv("after", absl::Milliseconds(1500))
               << Kv("status", absl::NotFoundError("x"));
  EXPECT_TRUE(log.Contains("msg=v flag=true after=1.5s status=\"NOT_FOUND: x\""))
      << log.records()[0].Format();
}

TEST(LogTest, LevelHoldsBackWithoutEvaluating) {
  ScopedLogCapture log;
  SetLogLevel(LogSeverity::kWarning);
  int evaluated = 0;
  GW_LOG(INFO) << ++evaluated;
  GW_LOG_EVERY(INFO, absl::Seconds(1)) << ++evaluated;
  GW_LOG(WARNING) << ++evaluated;
  GW_LOG(ERROR) << ++evaluated;
  EXPECT_EQ(evaluated, 2);
  EXPECT_EQ(log.records().size(), 2u);
  EXPECT_EQ(ParseLogSeverity("warning"), LogSeverity::kWarning);
  EXPECT_EQ(ParseLogSeverity("Warning "), std::nullopt);
}

TEST(LogTest, MacroIsOneStatement) {
  ScopedLogCapture log;
  const auto choose = [](bool yes) {
    if (yes)
      GW_LOG(INFO) << "yes";
    else
      GW_LOG(INFO) << "no";
  };
  choose(true);
  choose(false);
  ASSERT_EQ(log.records().size(), 2u);
  EXPECT_EQ(log.records()[0].message, "yes");
  EXPECT_EQ(log.records()[1].message, "no");
}

TEST(LogTest, EveryLimitsASiteAndCountsWhatItHeldBack) {
  SimLoop clock;
  ScopedLogCapture log(&clock);
  const auto site = [] { GW_LOG_EVERY(INFO, absl::Seconds(10)) << "often"; };
  for (int i = 0; i < 5; ++i) site();
  EXPECT_EQ(log.records().size(), 1u);
  clock.RunFor(absl::Seconds(9.9));
  site();
  EXPECT_EQ(log.records().size(), 1u);
  clock.RunFor(absl::Seconds(0.2));
  site();
  ASSERT_EQ(log.records().size(), 2u);
  EXPECT_EQ(log.records()[0].suppressed_count, 0u);
  EXPECT_EQ(log.records()[1].suppressed_count, 5u);
  EXPECT_TRUE(log.Contains("suppressed=5"));
}

TEST(LogTest, AClockThatStartsAnewDoesNotSilenceASite) {
  const auto site = [] { GW_LOG_EVERY(INFO, absl::Seconds(10)) << "x"; };
  {
    SimLoop late;
    late.RunFor(absl::Hours(1000));
    ScopedLogCapture log(&late);
    site();
    EXPECT_EQ(log.records().size(), 1u);
  }
  SimLoop early;
  ScopedLogCapture log(&early);
  site();
  EXPECT_EQ(log.records().size(), 1u);
}

TEST(LogTest, EveryKeyLimitsEachKeyWithinBounds) {
  SimLoop clock;
  ScopedLogCapture log(&clock);
  const auto site = [](absl::string_view key) {
    GW_LOG_EVERY_KEY(INFO, absl::Seconds(10), key) << key;
  };
  site("a");
  site("b");
  site("a");
  EXPECT_EQ(log.records().size(), 2u);
  for (int i = 0; i < 10'000; ++i) site(absl::StrCat("peer ", i));
  // 256 keys, then one line for all that found no room.
  EXPECT_EQ(log.records().size(), kMaxLogKeyCount + 1);
  clock.RunFor(absl::Seconds(11));
  site("new");
  EXPECT_EQ(log.records().size(), kMaxLogKeyCount + 2) << "expired keys make room";
  site("new");
  EXPECT_EQ(log.records().size(), kMaxLogKeyCount + 2);
}

TEST(LogTest, ThreadsLogAndSinksChangeMeanwhile) {
  std::vector<std::thread> threads;
  ScopedLogCapture outer;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        GW_LOG(INFO) << "t" << Kv("i", i);
        GW_LOG_EVERY_KEY(WARNING, absl::Milliseconds(1), "k") << "k";
        GW_LOG_EVERY(WARNING, absl::Milliseconds(1)) << "e";
      }
    });
  }
  for (int i = 0; i < 50; ++i) ScopedLogCapture inner;
  for (auto& thread : threads) thread.join();
}

TEST(LogTest, DefaultSinkWritesLinesToStderr) {
  testing::internal::CaptureStderr();
  GW_LOG(ERROR) << "to stderr" << Kv("n", 1);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("level=error"), std::string::npos) << text;
  EXPECT_NE(text.find("msg=\"to stderr\" n=1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace gradwire
