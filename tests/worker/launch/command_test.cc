// The command line of gradwire: what it can, and errors that say what would be right.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/agent.h"
#include "rpc/base/fs.h"
#include "tests/support/matchers.h"
#include "tests/worker/launch/run_process.h"

namespace gradwire::launch::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::testing::AllOf;
using ::testing::HasSubstr;

// gradwire with these arguments ends with `status`, and says `what`.
void ExpectRefused(const std::vector<std::string>& arguments, int status,
                   const ::testing::Matcher<std::string>& what) {
  const auto run = RunProcess::Start(arguments);
  EXPECT_EQ(run->WaitForEnd(), status);
  EXPECT_THAT(run->err(), what);
  EXPECT_EQ(run->out(), "");
  EXPECT_EQ(run->Left(), "");
}

void WriteScript(const std::string& path, const std::string& text) {
  EXPECT_THAT(FileSystem::Real().MakeDirs(ParentPath(path)), IsOk());
  EXPECT_THAT(FileSystem::Real().WriteAtomically(path, text), IsOk());
  EXPECT_EQ(chmod(path.c_str(), 0755), 0);
}

TEST(Command, HelpAndVersion) {
  const auto help = RunProcess::Start({"--help"});
  EXPECT_EQ(help->WaitForEnd(), 0);
  EXPECT_THAT(help->out(), AllOf(HasSubstr("run"), HasSubstr("worker"), HasSubstr("version")));
  const auto run = RunProcess::Start({"run", "--help"});
  EXPECT_EQ(run->WaitForEnd(), 0);
  EXPECT_THAT(run->out(), AllOf(HasSubstr("--max-restarts"), HasSubstr("-- BINARY ARGS"),
                                HasSubstr("GRADWIRE_GRACE"), HasSubstr("5s")));
  const auto version = RunProcess::Start({"version"});
  EXPECT_EQ(version->WaitForEnd(), 0);
  EXPECT_EQ(version->out(), "gradwire 0.1.0\n");
}

TEST(Command, ASubcommandThatIsNone) {
  ExpectRefused({"rnu"}, 2,
                AllOf(HasSubstr("no subcommand \"rnu\""), HasSubstr("did you mean run?"),
                      HasSubstr("worker")));
  ExpectRefused({}, 2, HasSubstr("Usage: gradwire SUBCOMMAND"));
}

TEST(Command, FlagsThatAreWrong) {
  ExpectRefused({"run"}, 2,
                AllOf(HasSubstr("no program to run"), HasSubstr("-- build/bin/worker")));
  ExpectRefused({"run", "--servrs=2", "--", "true"}, 2,
                AllOf(HasSubstr("servrs"), HasSubstr("--servers")));
  ExpectRefused({"run", "--servers=65", "--", "true"}, 2,
                AllOf(HasSubstr("servers"), HasSubstr("65"), HasSubstr("from 0 to 64")));
  ExpectRefused({"run", "--workers=0", "--", "true"}, 2, HasSubstr("from 1 to 128"));
  ExpectRefused({"run", "--port=70000", "--", "true"}, 2, HasSubstr("from 0 to 65535"));
  ExpectRefused({"run", "--grace=5", "--", "true"}, 2, HasSubstr("a duration with a unit"));
}

TEST(Command, ProgramsThatAreNone) {
  const TestFolder folder;
  const std::string file = folder.path() + "/file";
  ASSERT_THAT(FileSystem::Real().WriteAtomically(file, "text"), IsOk());
  ExpectRefused({"run", "--", folder.path() + "/none"}, 2,
                AllOf(HasSubstr("there is no program"), HasSubstr("build it first")));
  ExpectRefused({"run", "--", folder.path()}, 2, HasSubstr("is a folder"));
  ExpectRefused({"run", "--", file}, 2, AllOf(HasSubstr("not executable"), HasSubstr("chmod +x")));
  ExpectRefused({"run", "--", "gw-no-such-program"}, 2,
                AllOf(HasSubstr("in PATH"), HasSubstr("./gw-no-such-program")));
}

TEST(Command, AProgramThatTheSystemRefuses) {
  const TestFolder folder;
  const std::string file = folder.path() + "/file";
  WriteScript(file, "#!/no/such/interpreter\n");
  const auto run = RunProcess::Start({"run", "--", file});
  EXPECT_EQ(run->WaitForEnd(), 126);
  EXPECT_THAT(run->err(), AllOf(HasSubstr("ps0 could not be started"), HasSubstr(file)));
  EXPECT_EQ(run->Left(), "");
}

TEST(Command, APortInUseIsNamed) {
  auto agent = rpc::Agent::Start({.name = "holder"});
  ASSERT_THAT(agent, IsOk());
  const std::string port = (*agent)->address().substr((*agent)->address().rfind(':') + 1);
  ExpectRefused({"run", "--port=" + port, "--", "true"}, 1,
                AllOf(HasSubstr("--port=" + port), HasSubstr("in use")));
}

TEST(Command, FoldersThatCannotBeWritten) {
  const TestFolder folder;
  const std::string file = folder.path() + "/file";
  ASSERT_THAT(FileSystem::Real().WriteAtomically(file, "text"), IsOk());
  ExpectRefused({"run", "--log-dir=" + file, "--", "true"}, 1, HasSubstr("--log-dir"));
  const auto run = RunProcess::Job({"--workers=1", "--summary=" + file + "/x"}, {});
  EXPECT_EQ(run->WaitForEnd(), 1);
  EXPECT_THAT(run->err(), HasSubstr("gradwire run: --summary: "));
}

TEST(Command, TheRolesProgramsAreFound) {
  const TestFolder folder;
  const std::string self = folder.path() + "/bin/gradwire";
  ASSERT_THAT(FileSystem::Real().MakeDirs(folder.path() + "/bin"), IsOk());
  std::filesystem::copy_file(RunProcess::Gradwire(), self);
  const auto ask = [&] {
    const auto run =
        RunProcess::Start({"/bin/sh", "-c", self + " ps --name='a b' 1"}, {.plain = true});
    run->WaitForEnd();
    return run->out() + run->err();
  };
  EXPECT_THAT(ask(), AllOf(HasSubstr("no program ps at " + folder.path() + "/libexec/gradwire/ps"),
                           HasSubstr("nor at " + folder.path() + "/bin/ps")));
  WriteScript(folder.path() + "/bin/ps", "#!/bin/sh\necho built \"$1\" \"$2\"\n");
  EXPECT_EQ(ask(), "built --name=a b 1\n");
  WriteScript(folder.path() + "/libexec/gradwire/ps", "#!/bin/sh\necho installed \"$1\" \"$2\"\n");
  EXPECT_EQ(ask(), "installed --name=a b 1\n");
}

}  // namespace
}  // namespace gradwire::launch::testing
