// Output streams that nobody may wait for, and what a console makes of lines.
#include "worker/launch/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rpc/base/unique_fd.h"
#include "worker/launch/log_lines.h"
#include "worker/launch/output_stream.h"

namespace gradwire::launch {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader.Reset(ends[0]);
    writer.Reset(ends[1]);
  }
  // What is there.
  std::string Read() {
    std::string text(1 << 20, '\0');
    fcntl(reader.get(), F_SETFL, O_NONBLOCK);
    const ssize_t count = read(reader.get(), text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return text;
  }
  UniqueFd reader, writer;
};

Environment Nothing() {
  return [](const std::string&) { return std::nullopt; };
}

TEST(OutputStream, WritesWhatFitsAndKeepsTheRest) {
  Pipe pipe;
  OutputStream stream(pipe.writer.get());
  EXPECT_FALSE(stream.is_terminal());
  std::string all;
  for (int i = 0; i < 100; ++i) {
    all += std::string(5000, static_cast<char>('a' + i % 26));
    stream.Write(std::string(5000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_TRUE(stream.has_pending());
  EXPECT_FALSE(stream.full());
  std::string read;
  while (stream.has_pending()) {
    const std::string more = pipe.Read();
    ASSERT_FALSE(more.empty());
    read += more;
    stream.Flush();
  }
  EXPECT_EQ(read + pipe.Read(), all);
  // The pipe's other users still wait when they write.
  EXPECT_EQ(fcntl(pipe.writer.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(OutputStream, SaysWhenItIsFull) {
  Pipe pipe;
  OutputStream stream(pipe.writer.get());
  stream.Write(std::string(OutputStream::kFullBytes + (1 << 20), 'x'));
  EXPECT_TRUE(stream.full());
}

TEST(OutputStream, AReaderThatWentAwayIsNoError) {
  const auto old = signal(SIGPIPE, SIG_IGN);  // as gradwire run does
  Pipe pipe;
  OutputStream stream(pipe.writer.get());
  pipe.reader.Reset();
  stream.Write("lost");
  stream.Write(std::string(1 << 22, 'x'));
  EXPECT_FALSE(stream.has_pending());
  signal(SIGPIPE, old);
}

TEST(OutputStream, AClosedDescriptorIsNoError) {
  OutputStream stream(-1);
  stream.Write("lost");
  EXPECT_FALSE(stream.has_pending());
}

TEST(OutputStream, KnowsTheSameFile) {
  Pipe a, b;
  const UniqueFd again(dup(a.writer.get()));
  EXPECT_TRUE(OutputStream::Same(a.writer.get(), again.get()));
  EXPECT_FALSE(OutputStream::Same(a.writer.get(), b.writer.get()));
  EXPECT_FALSE(OutputStream::Same(-1, -1));
}

TEST(Console, LinesGoWhereTheyBelong) {
  Pipe out, err;
  OutputStream out_stream(out.writer.get()), err_stream(err.writer.get());
  Console console(&out_stream, &err_stream, Nothing());
  EXPECT_FALSE(console.shows_status());
  console.SetStatus("never shown");
  console.Line(Console::To::kOut, "ps0", 0, "\x1b[1m\xff");
  console.Line(Console::To::kErr, "worker1", 2, "oh");
  console.Text(Console::To::kErr, "gradwire: x\n");
  EXPECT_EQ(out.Read(), "[ps0] \x1b[1m\xff\n");
  EXPECT_EQ(err.Read(), "[worker1] oh\ngradwire: x\n");
}

TEST(LogLines, AreKeptUntilTheyAreTaken) {
  LogLines log;
  EXPECT_TRUE(log.Take().empty());
  std::thread other([] { GW_LOG(ERROR) << "from another thread"; });
  other.join();
  pollfd ready = {log.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 0), 1);
  EXPECT_THAT(log.Take(), ::testing::ElementsAre(::testing::HasSubstr("from another thread")));
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  for (size_t i = 0; i < LogLines::kMaxLineCount + 5; ++i) GW_LOG(ERROR) << "again";
  const std::vector<std::string> lines = log.Take();
  EXPECT_EQ(lines.size(), LogLines::kMaxLineCount + 1);
  EXPECT_THAT(lines.back(), ::testing::HasSubstr("count=5"));
}

TEST(ForTerminal, NothingReachesIt) {
  EXPECT_EQ(ForTerminal("plain \t ö ✓"), "plain \t ö ✓");
  EXPECT_EQ(ForTerminal("\x1b[2J\x07\x7f"), "^[[2J^G^?");
  EXPECT_EQ(ForTerminal("a\xff"), "a\xef\xbf\xbd");
  EXPECT_EQ(ForTerminal("\xc2\x9b\x32J"), "^?2J");
}

}  // namespace
}  // namespace gradwire::launch
