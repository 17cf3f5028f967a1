#include "rpc/base/options.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/base/fs_sim.h"
#include "rpc/base/log.h"

namespace gradwire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() {
    table_.Group("Network");
    table_.Add({.name = "listen", .unit = "host:port", .help = "Where to listen."}, &listen_);
    table_.Add({.name = "peers", .help = "Names of peers."}, &peers_);
    table_.Add({.name = "window", .help = "How long a session may be cut."}, &window_);
    table_.Add({.name = "pause", .help = "Pause."}, &pause_, absl::Seconds(1), absl::Hours(1));
    table_.Group("Limits");
    table_.Add({.name = "max-tensor", .help = "Largest tensor."}, &max_tensor_, {1024});
    table_.Add({.name = "threads", .help = "Threads.", .env = "MY_THREADS"}, &threads_, 1, 64);
    table_.Add({.name = "rate", .help = "Rate."}, &rate_, 0.0, 1.0);
    table_.Add({.name = "verbose", .help = "Says more."}, &verbose_);
    table_.AddChoice({.name = "log-level", .help = "Lowest severity that is logged."}, &level_,
                     {{"info", LogSeverity::kInfo},
                      {"warning", LogSeverity::kWarning},
                      {"error", LogSeverity::kError}});
  }

  absl::StatusOr<ParsedArguments> Parse(const std::vector<std::string>& arguments) {
    return table_.Parse(
        arguments,
        [&](const std::string& name) -> std::optional<std::string> {
          const auto found = environment_.find(name);
          if (found == environment_.end()) return std::nullopt;
          return found->second;
        },
        fs_);
  }
  std::string Error(const std::vector<std::string>& arguments) {
    const auto parsed = Parse(arguments);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << parsed.status();
    return std::string(parsed.status().message());
  }

  std::string listen_ = "127.0.0.1:0";
  std::vector<std::string> peers_ = {"a"};
  absl::Duration window_ = absl::Seconds(5);
  absl::Duration pause_ = absl::Seconds(2);
  ByteCount max_tensor_{uint64_t{2} << 30};
  int64_t threads_ = 4;
  double rate_ = 0.5;
  bool verbose_ = false;
  LogSeverity level_ = LogSeverity::kInfo;
  std::map<std::string, std::string> environment_;
  SimFileSystem fs_;
  OptionTable table_;
};

TEST_F(OptionsTest, WithoutSourcesTheDefaultsStay) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(listen_, "127.0.0.1:0");
  EXPECT_EQ(threads_, 4);
  EXPECT_TRUE(absl::StrContains(table_.Describe(), "window = 5s  # default\n"));
}

TEST_F(OptionsTest, FlagsOfEveryType) {
  const auto parsed = Parse({"--listen=h:1", "first", "--peers", "x, y,", "--window=1m30s",
                             "--max-tensor", "1.5KiB", "--threads=-0x"});
  EXPECT_FALSE(parsed.ok());
  const auto good = Parse({"--listen=h:1", "first", "--peers", "x, y,", "--window=1m30s",
                           "--max-tensor", "1.5KiB", "--threads", "8", "--rate=1e-2", "--verbose",
                           "second", "--log-level=error", "-", "--", "--listen=no", "-x"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_FALSE(good->help);
  EXPECT_THAT(good->positional, ElementsAre("first", "second", "-", "--listen=no", "-x"));
  EXPECT_EQ(listen_, "h:1");
  EXPECT_THAT(peers_, ElementsAre("x", "y"));
  EXPECT_EQ(window_, absl::Seconds(90));
  EXPECT_EQ(max_tensor_.value, 1536u);
  EXPECT_EQ(threads_, 8);
  EXPECT_EQ(rate_, 0.01);
  EXPECT_TRUE(verbose_);
  EXPECT_EQ(level_, LogSeverity::kError);
}

TEST_F(OptionsTest, BoolsTakeTheirValueByEqualsAlone) {
  const auto parsed = Parse({"--verbose", "false"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(verbose_);
  EXPECT_THAT(parsed->positional, ElementsAre("false"));
  ASSERT_TRUE(Parse({"--verbose=off"}).ok());
  EXPECT_FALSE(verbose_);
}

TEST_F(OptionsTest, RepeatedFlags) {
  ASSERT_TRUE(Parse({"--threads=1", "--threads=2", "--peers=x", "--peers=y,z"}).ok());
  EXPECT_EQ(threads_, 2);
  EXPECT_THAT(peers_, ElementsAre("x", "y", "z"));
  ASSERT_TRUE(Parse({"--peers="}).ok());
  EXPECT_THAT(peers_, IsEmpty());
}

TEST_F(OptionsTest, FlagsBeatTheEnvironmentBeatsTheFile) {
  ASSERT_TRUE(fs_.WriteAtomically("/etc.conf",
                                  "# a comment = x\r\n"
                                  "\n"
                                  "  threads = 10  \r\n"
                                  "rate=0.25\n"
                                  "listen = file = yes\n"
                                  "peers = f,g\n"
                                  "peers = h\n"
                                  "verbose = yes")
                  .ok());
  environment_ = {{"MY_THREADS", "20"}, {"GRADWIRE_RATE", "0.75"}, {"GRADWIRE_PEERS", "e"}};
  ASSERT_TRUE(Parse({"--config=/etc.conf", "--threads=30"}).ok());
  EXPECT_EQ(threads_, 30);
  EXPECT_EQ(rate_, 0.75);
  EXPECT_EQ(listen_, "file = yes");
  EXPECT_THAT(peers_, ElementsAre("e"));
  EXPECT_TRUE(verbose_);
  const std::string description = table_.Describe();
  EXPECT_TRUE(absl::StrContains(description, "threads = 30  # the flag --threads\n"));
  EXPECT_TRUE(absl::StrContains(description, "rate = 0.75  # the environment's GRADWIRE_RATE\n"));
  EXPECT_TRUE(absl::StrContains(description, "listen = file = yes  # /etc.conf:5\n"));
}

TEST_F(OptionsTest, ListsOfAFileGrow) {
  ASSERT_TRUE(fs_.WriteAtomically("c", "peers = f,g\npeers = h\n").ok());
  environment_["GRADWIRE_CONFIG"] = "c";
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(peers_, ElementsAre("f", "g", "h"));
}

TEST_F(OptionsTest, WrongValuesNameThemselvesAndTheirOrigin) {
  EXPECT_EQ(
      Error({"--threads=many"}),
      "option threads: \"many\" (from the flag --threads) is not allowed; allowed is an integer "
      "such as 64, from 1 to 64");
  EXPECT_TRUE(absl::StrContains(Error({"--threads=0"}), "from 1 to 64"));
  EXPECT_TRUE(absl::StrContains(Error({"--threads=65"}), "from 1 to 64"));
  EXPECT_TRUE(absl::StrContains(Error({"--threads=99999999999999999999"}), "from 1 to 64"));
  EXPECT_TRUE(absl::StrContains(Error({"--rate=nan"}), "from 0 to 1"));
  EXPECT_TRUE(absl::StrContains(Error({"--window=5"}), "250ms"));
  EXPECT_TRUE(absl::StrContains(Error({"--window=-1s"}), "not negative"));
  EXPECT_TRUE(absl::StrContains(Error({"--pause=2h"}), "from 1s to 1h"));
  EXPECT_TRUE(absl::StrContains(Error({"--max-tensor=5 furlongs"}), "64KiB"));
  EXPECT_TRUE(absl::StrContains(Error({"--max-tensor=1"}), "at least 1KiB"));
  EXPECT_TRUE(absl::StrContains(Error({"--verbose=perhaps"}), "true or false"));
  EXPECT_TRUE(absl::EndsWith(Error({"--log-level=loud"}), "allowed is one of info|warning|error"));
  environment_["MY_THREADS"] = "x\ny";
  EXPECT_TRUE(absl::StrContains(Error({}), "\"x\\ny\" (from the environment's MY_THREADS)"));
  EXPECT_TRUE(absl::StrContains(Error({"--threads=3"}), "MY_THREADS"))
      << "checked although the flag decides";
  environment_.clear();
  ASSERT_TRUE(fs_.WriteAtomically("c", "\nrate = 7").ok());
  EXPECT_TRUE(absl::StrContains(Error({"--config=c"}), "\"7\" (from c:2)"));
}

TEST_F(OptionsTest, UnknownNamesComeWithTheNearest) {
  EXPECT_EQ(Error({"--treads=3"}),
            "unknown option --treads (from the command line); did you mean --threads?");
  EXPECT_TRUE(absl::StrContains(Error({"--log_level=info"}), "did you mean --log-level?"));
  EXPECT_TRUE(absl::StrContains(Error({"-threads=3"}), "did you mean --threads?"));
  EXPECT_TRUE(absl::StrContains(Error({"--hlep"}), "did you mean --help?"));
  EXPECT_EQ(Error({"--zzzzzzzz"}),
            "unknown option --zzzzzzzz (from the command line); --help lists them all");
  EXPECT_TRUE(absl::StrContains(Error({"--" + std::string(100'000, 'x')}), "--help"));
  ASSERT_TRUE(fs_.WriteAtomically("c", "lisen = 1\n").ok());
  EXPECT_EQ(Error({"--config=c"}), "unknown option lisen (from c:1); did you mean listen?");
}

TEST_F(OptionsTest, MissingValues) {
  EXPECT_EQ(Error({"--threads"}), "the flag --threads needs a value: --threads=<integer>");
  EXPECT_TRUE(absl::StrContains(Error({"--listen", "--verbose"}), "needs a value"));
}

TEST_F(OptionsTest, BadFiles) {
  EXPECT_EQ(Parse({"--config=none"}).status().code(), absl::StatusCode::kNotFound);
  const auto error_of = [&](absl::string_view contents) {
    EXPECT_TRUE(fs_.WriteAtomically("c", contents).ok());
    return Error({"--config=c"});
  };
  EXPECT_EQ(error_of("\n\nthreads 3"), "c:3: \"threads 3\" is not of the form name = value");
  EXPECT_EQ(error_of("threads=3\nthreads=3"), "c:2: threads is given twice");
  EXPECT_EQ(error_of("config = d"), "c:1: a file can't name another one with config");
  EXPECT_TRUE(absl::StrContains(error_of("= 3"), "unknown option"));
  EXPECT_TRUE(absl::StrContains(error_of(std::string("\x00\xff\x1b", 3)), "\\x00\\xff\\x1b"));
  ASSERT_TRUE(fs_.WriteAtomically("c", std::string(kMaxConfigFileBytes + 1, '\n')).ok());
  EXPECT_EQ(Parse({"--config=c"}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(OptionsTest, HelpIsGroupedWrappedAndComplete) {
  table_.Group("Network");
  std::string other;
  table_.Add(
      {.name = "other",
       .help = std::string(300, 'w') +
               " and many words after it, which must "
               "be wrapped so that no line is longer than it may be on a terminal of usual width."},
      &other);
  const auto parsed = Parse({"--threads=1", "--help", "--nonsense"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->help);
  const std::string help = table_.Help("ps", "Serves tables.");
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    if (absl::StrContains(line, "www")) continue;
    EXPECT_LE(line.size(), 100u) << line;
  }
  EXPECT_TRUE(absl::StartsWith(
      help,
      "Usage: ps [--option=value ...]\n\nServes tables.\n\nNetwork:\n"
      "  --listen=<host:port>\n"
      "      Where to listen. Default: 127.0.0.1:0. Environment: GRADWIRE_LISTEN.\n"))
      << help;
  EXPECT_TRUE(absl::StrContains(help,
                                "  --threads=<integer>\n      Threads. Allowed: from 1 to 64. "
                                "Default: 4. Environment: MY_THREADS.\n"))
      << help;
  EXPECT_TRUE(absl::StrContains(help, "  --verbose[=false]\n"));
  EXPECT_TRUE(absl::StrContains(help, "  --log-level=<info|warning|error>\n"));
  EXPECT_TRUE(absl::StrContains(help, "Default: 2GiB."));
  EXPECT_TRUE(absl::StrContains(help, "Default: none."));
  EXPECT_LT(help.find("\nLimits:\n"), help.find("\nGeneral:\n"));
  EXPECT_LT(help.find("--other"), help.find("\nLimits:\n")) << "a group may be continued";
}

TEST_F(OptionsTest, ATableWithAMistakeSaysSo) {
  bool twice = false;
  table_.Add({.name = "listen"}, &twice);
  EXPECT_EQ(Parse({}).status().code(), absl::StatusCode::kInternal);
}

TEST(OptionValuesTest, ByteCounts) {
  const auto bytes = [](absl::string_view text) {
    const auto value = ParseByteCount(text);
    return value ? absl::StrCat(value->value) : "-";
  };
  EXPECT_EQ(bytes("0"), "0");
  EXPECT_EQ(bytes("123B"), "123");
  EXPECT_EQ(bytes("64KiB"), "65536");
  EXPECT_EQ(bytes("64 kib"), "65536");
  EXPECT_EQ(bytes("10MB"), "10000000");
  EXPECT_EQ(bytes("1.5GiB"), "1610612736");
  EXPECT_EQ(bytes("16777215TiB"), "18446742974197923840");
  EXPECT_EQ(bytes("18446744073709551615"), "18446744073709551615");
  for (const absl::string_view bad : {"", "B", "-1", "+1", "1.", ".5", "1e3", "1 2", "0x10", "1K",
                                      "18446744073709551616", "16777216TiB", "nan", "1.5.2KiB"}) {
    EXPECT_EQ(bytes(bad), "-") << bad;
  }
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1024}, uint64_t{1536},
                               uint64_t{5} << 40, ~uint64_t{0}, (uint64_t{3} << 30) + 1}) {
    EXPECT_EQ(ParseByteCount(FormatByteCount({value}))->value, value);
  }
}

TEST(OptionValuesTest, EditDistance) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", "abc"), 0);
  EXPECT_EQ(EditDistance("abc", "ab"), 1);
  EXPECT_EQ(EditDistance("abc", "acb"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("", "abc"), 3);
}

}  // namespace
}  // namespace gradwire
