// Command lines of `gradwire run`, the programs that they name, and the folder of the token.
#include "worker/launch/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "rpc/base/fs.h"
#include "rpc/base/rng.h"
#include "tests/support/matchers.h"
#include "tests/worker/launch/run_process.h"
#include "worker/launch/private_folder.h"
#include "worker/launch/run_options.h"

namespace gradwire::launch {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Environment Says(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(Program, IsFoundInPath) {
  FileSystem& fs = FileSystem::Real();
  EXPECT_THAT(FindProgram("sh", Says({{"PATH", "/no/such:/bin"}}), fs), IsOkAndHolds("/bin/sh"));
  EXPECT_THAT(FindProgram("/bin/sh", Says({}), fs), IsOkAndHolds("/bin/sh"));
  EXPECT_THAT(FindProgram("sh", Says({}), fs),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("sh")));
  EXPECT_THAT(FindProgram("", Says({}), fs),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("empty")));
}

TEST(RunCommandLine, ServersAndWorkers) {
  const auto options =
      ParseRunOptions({"--servers=1", "--workers=2", "--server-arg=--a=1,2", "--server-arg", "--b",
                       "--", "/bin/sh", "--job=x", "--servers"},
                      Says({}), FileSystem::Real());
  ASSERT_THAT(options, IsOk());
  const auto commands = JobCommands(*options, "tcp://127.0.0.1:7", "/t");
  ASSERT_EQ(commands.size(), 3u);
  EXPECT_THAT(commands[0],
              ElementsAre("/bin/sh", "ps", "--name=ps0", "--rendezvous=tcp://127.0.0.1:7",
                          "--token-file=/t", "--servers=1", "--workers=2", "--a=1,2", "--b"));
  EXPECT_THAT(commands[2], ElementsAre("/bin/sh", "worker", "--name=worker1", "--rank=1",
                                       "--rendezvous=tcp://127.0.0.1:7", "--token-file=/t",
                                       "--servers=1", "--workers=2", "--job=x", "--servers"));
}

TEST(RunCommandLine, AServersFlagBehindTheDashesIsTheWorkers) {
  const auto options = ParseRunOptions({"--", "/bin/sh", "--server-arg=x", "--server-arg"},
                                       Says({}), FileSystem::Real());
  ASSERT_THAT(options, IsOk());
  EXPECT_THAT(options->server_arguments, ::testing::IsEmpty());
  EXPECT_THAT(options->command, ElementsAre("/bin/sh", "--server-arg=x", "--server-arg"));
}

TEST(RunCommandLine, TheEnvironmentSpeaksToo) {
  const auto options = ParseRunOptions({"--", "/bin/sh"},
                                       Says({{"GRADWIRE_WORKERS", "5"}, {"GRADWIRE_JOB_ID", "j"}}),
                                       FileSystem::Real());
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->job.worker_count, 5);
  EXPECT_EQ(JobCommands(*options, "r", "t")[0].back(), "--job-id=j");
}

TEST(Folder, IsPrivateAndGoesWithItsObject) {
  const testing::TestFolder base;
  FileSystem& fs = FileSystem::Real();
  auto guard = Guard::Start();
  ASSERT_THAT(guard, IsOk());
  std::string path;
  {
    auto folder = PrivateFolder::Make(Says({{"TMPDIR", base.path()}}), Rng::Secure(), *guard);
    ASSERT_THAT(folder, IsOk());
    path = folder->path();
    const auto token = folder->WriteToken(Rng::Secure());
    ASSERT_THAT(token, IsOk());
    EXPECT_EQ(fs.Stat(path)->permissions, 0700u);
    EXPECT_EQ(fs.Stat(*token)->permissions, 0600u);
    EXPECT_EQ(ParentPath(path), base.path());
    auto other = PrivateFolder::Make(Says({{"TMPDIR", base.path()}}), Rng::Secure(), *guard);
    ASSERT_THAT(other, IsOk());
    const auto other_token = other->WriteToken(Rng::Secure());
    ASSERT_THAT(other_token, IsOk());
    EXPECT_NE(*fs.ReadAll(*token, 1000), *fs.ReadAll(*other_token, 1000));
  }
  EXPECT_THAT(fs.Stat(path), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_THAT(base.Names(), ::testing::IsEmpty());
  EXPECT_THAT(PrivateFolder::Make(Says({{"TMPDIR", path}}), Rng::Secure(), *guard),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("set TMPDIR")));
}

}  // namespace
}  // namespace gradwire::launch
