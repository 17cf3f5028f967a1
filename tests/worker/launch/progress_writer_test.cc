// Progress lines on a pipe: read, dropped where nobody reads, and never the writer's trouble.
#include "worker/launch/progress_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rpc/base/clock.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::launch {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

Environment Says(std::optional<std::string> value) {
  return [value](const std::string& name) -> std::optional<std::string> {
    if (name == kProgressFdVariable) return value;
    return std::nullopt;
  };
}

class ProgressPipe : public ::testing::Test {
 protected:
  ProgressPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_.Reset(ends[0]);
    writer_.Reset(ends[1]);
  }
  std::string Read() {
    char bytes[1 << 16];
    const ssize_t count = read(reader_.get(), bytes, sizeof(bytes));
    return std::string(bytes, count < 0 ? 0 : static_cast<size_t>(count));
  }
  // Writes until nothing more fits; how many lines are in the pipe.
  int Fill(ProgressWriter& writer) {
    for (int i = 0; i < 5000; ++i) writer.Write({.rank = 1, .error = std::string(500, '\x01')});
    return 0;
  }

  UniqueFd reader_, writer_;
};

TEST_F(ProgressPipe, LinesArrive) {
  auto writer = ProgressWriter::FromEnvironment(Says(absl::StrCat(writer_.Release())));
  ASSERT_THAT(writer, IsOk());
  EXPECT_TRUE(writer->active());
  writer->Write({.rank = 1, .rows = 5});
  writer->Write({.rank = 1, .rows = 6, .done = true});
  const std::vector<std::string> lines = absl::StrSplit(Read(), '\n');
  ASSERT_EQ(lines.size(), 3u);
  const auto first = ParseProgress(lines[0]);
  const auto second = ParseProgress(lines[1]);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(first->rows, 5);
  EXPECT_TRUE(second->done);
}

TEST_F(ProgressPipe, WithoutALauncherNothingIsWritten) {
  auto writer = ProgressWriter::FromEnvironment(Says(std::nullopt));
  ASSERT_THAT(writer, IsOk());
  EXPECT_FALSE(writer->active());
  writer->Write({.rank = 1});
}

TEST_F(ProgressPipe, WhatIsNoPipeIsRefused) {
  const UniqueFd file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (const std::string& fd :
       {std::string("seven"), std::string("-1"), std::string(""), std::string("99999999999"),
        std::string("1"), absl::StrCat(file.get()), absl::StrCat(reader_.get())}) {
    SCOPED_TRACE(fd);
    EXPECT_THAT(ProgressWriter::FromEnvironment(Says(fd)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("GRADWIRE_PROGRESS_FD")));
  }
}

TEST_F(ProgressPipe, AReaderThatWentAwayRaisesNoSignal) {
  const auto old = signal(SIGPIPE, SIG_DFL);  // would end this test
  ProgressWriter writer(std::move(writer_));
  reader_.Reset();
  writer.Write({.rank = 1});
  EXPECT_FALSE(writer.active());
  writer.Write({.rank = 1, .done = true});
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  signal(SIGPIPE, old);
}

TEST_F(ProgressPipe, AReaderThatDoesNotReadBlocksNobody) {
  ProgressWriter writer(std::move(writer_));
  Fill(writer);
  EXPECT_TRUE(writer.active());
  // Every line that is there is whole.
  std::string text;
  for (std::string more = Read(); !more.empty(); more = Read()) {
    text += more;
    if (more.size() < 1 << 16) break;
  }
  ASSERT_EQ(text.back(), '\n');
  text.pop_back();
  for (const auto line : absl::StrSplit(text, '\n')) EXPECT_THAT(ParseProgress(line), IsOk());
}

TEST_F(ProgressPipe, TheLastLineWaitsForAReaderThatIsLate) {
  ProgressWriter writer(std::move(writer_));
  Fill(writer);
  std::string text;
  std::thread late([&] {
    while (true) {
      const std::string more = Read();
      if (more.empty()) return;
      text += more;
    }
  });
  writer.Write({.rank = 7, .done = true});
  writer = ProgressWriter();
  late.join();
  EXPECT_THAT(text, HasSubstr("rank=7"));
}

TEST_F(ProgressPipe, TheLastLineDoesNotWaitForever) {
  ProgressWriter writer(std::move(writer_));
  Fill(writer);
  const absl::Time start = Clock::Real().Now();
  writer.Write({.rank = 7, .done = true});
  EXPECT_LT(Clock::Real().Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace gradwire::launch
