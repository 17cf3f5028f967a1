// What gradwire run shows: whole lines with any bytes on a pipe, one status line on a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/clock.h"
#include "rpc/base/fs.h"
#include "tests/support/matchers.h"
#include "tests/worker/launch/run_process.h"

namespace gradwire::launch::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kColumns = 100;  // of RunProcess's terminal

// What a terminal shows of these bytes, line by line; colours are left out.
std::vector<std::string> Screen(const std::string& bytes) {
  std::vector<std::string> lines = {""};
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string& line = lines.back();
    if (bytes[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\x1b') {
      const size_t end = bytes.find_first_of("mK", i);
      if (end == std::string::npos) break;
      if (bytes[end] == 'K') line.resize(column);
      i = end;
    } else {
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = bytes[i];
    }
  }
  return lines;
}

RunProcess::Options Terminal(std::vector<std::string> environment) {
  return {.terminal = true, .environment = std::move(environment)};
}

TEST(RunOutput, BytesAreAsTheyWere) {
  const auto run = RunProcess::Job({"--workers=1"}, {"--do=raw:fffe001b5b316d0a80c3"});
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->out(), HasSubstr(std::string("[worker0] \xff\xfe\0\x1b[1m\n", 17)));
  // The last line has no end of its own.
  EXPECT_THAT(run->out(), HasSubstr("[worker0] \x80\xc3\n"));
}

TEST(RunOutput, LongLinesAreCutIntoLines) {
  const auto run = RunProcess::Job({"--workers=2"}, {"--do=long:200000"});
  EXPECT_EQ(run->WaitForEnd(), 0);
  std::map<std::string, size_t> letters;
  for (const absl::string_view line : absl::StrSplit(run->out(), '\n')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    if (!absl::StartsWith(parts.first, "[worker")) continue;
    EXPECT_LE(parts.second.size(), size_t{64} << 10);
    EXPECT_EQ(parts.second.find_first_not_of('x'), std::string::npos);
    letters[parts.first] += parts.second.size();
  }
  EXPECT_EQ(letters["[worker0]"], 200000u);
  EXPECT_EQ(letters["[worker1]"], 200000u);
}

TEST(RunOutput, ATerminalShowsLinesAndOneStatus) {
  const TestFolder folder;
  const std::string go = folder.path() + "/go";
  const auto run =
      RunProcess::Job({"--workers=2"}, {"--do=say:one+err:two+train+file:" + go + "+say:three"},
                      Terminal({"TERM=xterm"}));
  ASSERT_TRUE(run->WaitForOutput("epoch 2/2"));
  ASSERT_THAT(FileSystem::Real().WriteAtomically(go, ""), gradwire::testing::IsOk());
  EXPECT_EQ(run->WaitForEnd(), 0) << run->out();
  // Coloured names; a bar that was drawn and taken away.
  EXPECT_THAT(run->out(), ContainsRegex("\x1b\\[3[0-9]m\\[worker1\\]\x1b\\[0m one\r\n"));
  EXPECT_THAT(run->out(), ContainsRegex("\r\\[=*>? *\\] +[0-9]+%  epoch [12]/2  .*loss"));
  size_t texts = 0;
  for (const std::string& line : Screen(run->out())) {
    SCOPED_TRACE(line);
    EXPECT_THAT(line, Not(HasSubstr("rows/s ")));  // none is left
    if (absl::StartsWith(line, "[worker")) {
      EXPECT_TRUE(absl::EndsWith(line, "] one") || absl::EndsWith(line, "] two") ||
                  absl::EndsWith(line, "] three"));
      ++texts;
    }
  }
  EXPECT_EQ(texts, 6u);
}

TEST(RunOutput, TheStatusIsDrawnTenTimesASecondAtMostAndFits) {
  const absl::Time start = Clock::Real().Now();
  const auto run = RunProcess::Job({"--workers=2", "--grace=500ms"}, {"--do=train+flood"},
                                   Terminal({"TERM=xterm"}));
  size_t draws = 0;
  ASSERT_TRUE(run->WaitForOutput("epoch 2/2"));
  // A second of work; no line is lost or mixed meanwhile.
  while (Clock::Real().Now() - start < absl::Seconds(1)) {
    (void)run->WaitForOutput("never said", absl::Milliseconds(50));
  }
  run->Signal(SIGTERM);
  EXPECT_EQ(run->WaitForEnd(), 128 + SIGTERM);
  const absl::Duration elapsed = Clock::Real().Now() - start;
  for (const absl::string_view part : absl::StrSplit(run->out(), '\r')) {
    if (!absl::StartsWith(part, "[=") && !absl::StartsWith(part, "waiting")) continue;
    ++draws;
    EXPECT_LT(part.substr(0, part.find('\x1b')).size(), kColumns);
  }
  EXPECT_GE(draws, 1u);
  EXPECT_LE(static_cast<double>(draws), absl::ToDoubleSeconds(elapsed) * 10 + 2);
  for (const std::string& line : Screen(run->out())) {
    const size_t end = line.find("] ");
    if (!absl::StartsWith(line, "[worker") || end == std::string::npos) continue;
    // The last one is cut by its end.
    EXPECT_TRUE(absl::StartsWith("one of very many lines", line.substr(end + 2))) << line;
  }
}

TEST(RunOutput, WithoutColours) {
  const auto run = RunProcess::Job({"--workers=1"}, {"--do=say:one+train"},
                                   Terminal({"TERM=xterm", "NO_COLOR=1"}));
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->out(), Not(HasSubstr("\x1b[3")));
  EXPECT_THAT(run->out(), HasSubstr("\x1b[K"));
  EXPECT_THAT(run->out(), HasSubstr("[worker0] one\r\n"));
}

TEST(RunOutput, ADumbTerminalGetsPlainText) {
  const auto run = RunProcess::Job({"--workers=1", "--progress-interval=10ms"},
                                   {"--do=say:one+train"}, Terminal({"TERM=dumb"}));
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->out(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(run->out(), HasSubstr("[run] "));
}

TEST(RunOutput, ClosedStreamsAreNoTrouble) {
  const std::string command = absl::StrCat("exec ", RunProcess::Gradwire(), " run -- ",
                                           RunProcess::FakeRole(), " --do=say:one+err:two+train");
  for (const char* closed : {" <&- >&- 2>&-", " >&-", " 2>&-"}) {
    const auto run = RunProcess::Start({"/bin/sh", "-c", command + closed}, {.plain = true});
    EXPECT_EQ(run->WaitForEnd(), 0) << run->err();
    EXPECT_EQ(run->Left(), "");
  }
}

TEST(RunOutput, AProcessDoesNotReachTheTerminal) {
  const auto run = RunProcess::Job({"--workers=1"}, {"--do=raw:41ff1b5d303b7a07c29b42090a+exit:1"},
                                   Terminal({"TERM=xterm", "NO_COLOR=1"}));
  EXPECT_EQ(run->WaitForEnd(), 1);
  EXPECT_THAT(run->out(), HasSubstr("[worker0] A\xef\xbf\xbd^[]0;z^G^?B\t\r\n"));
}

}  // namespace
}  // namespace gradwire::launch::testing
