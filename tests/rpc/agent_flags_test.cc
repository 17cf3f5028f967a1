// Every option of an agent from flags, environment and file; wrong ones name what is allowed.
#include "rpc/agent_flags.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/base/fs.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AgentFlags : public ::testing::Test {
 protected:
  AgentFlags() { AddAgentOptions(table_, &options_); }
  absl::Status Parse(const std::vector<std::string>& arguments) {
    return table_
        .Parse(
            arguments,
            [this](const std::string& name) -> std::optional<std::string> {
              const auto found = environment_.find(name);
              if (found == environment_.end()) return std::nullopt;
              return found->second;
            },
            FileSystem::Real())
        .status();
  }

  AgentOptions options_;
  OptionTable table_;
  std::map<std::string, std::string> environment_;
};

TEST_F(AgentFlags, DefaultsAreThoseOfTheOptions) {
  const AgentOptions untouched;
  ASSERT_THAT(Parse({}), IsOk());
  EXPECT_EQ(options_.listen, untouched.listen);
  EXPECT_EQ(options_.rank, untouched.rank);
  EXPECT_EQ(options_.join_timeout, untouched.join_timeout);
  EXPECT_EQ(options_.limits.spin, untouched.limits.spin);
}

TEST_F(AgentFlags, FlagsGoBeforeTheEnvironment) {
  environment_ = {{"GRADWIRE_NAME", "from-environment"}, {"GRADWIRE_WORLD_SIZE", "3"}};
  ASSERT_THAT(Parse({"--name=trainer0", "--listen", "[::1]:7000", "--rank=2", "--join-timeout=5s",
                     "--rendezvous=tcp://127.0.0.1:6000", "--executor-slots=4",
                     "--insecure-transport", "--job-id=7"}),
              IsOk());
  EXPECT_EQ(options_.name, "trainer0");
  EXPECT_EQ(options_.listen, "[::1]:7000");
  EXPECT_EQ(options_.rank, 2);
  EXPECT_EQ(options_.world_size, 3);
  EXPECT_EQ(options_.join_timeout, absl::Seconds(5));
  EXPECT_EQ(options_.rendezvous, "tcp://127.0.0.1:6000");
  EXPECT_EQ(options_.executor_slot_count, 4u);
  EXPECT_TRUE(options_.insecure_transport);
  EXPECT_EQ(options_.job, "7");
}

TEST_F(AgentFlags, TheJobToTrainIsNotTheirs) {
  std::string job;
  table_.Add({.name = "job", .help = "What to train."}, &job);
  ASSERT_THAT(Parse({"--job=mnist", "--job-id=7"}), IsOk());
  EXPECT_EQ(job, "mnist");
  EXPECT_EQ(options_.job, "7");
}

TEST_F(AgentFlags, WrongOnesNameTheFlagTheValueAndWhatIsAllowed) {
  EXPECT_THAT(Parse({"--world-size=-2"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   AllOf(HasSubstr("world-size"), HasSubstr("-2"),
                                                         HasSubstr("from 0 to 4096"))));
  EXPECT_THAT(Parse({"--join-timeout=5"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("join-timeout")));
  EXPECT_THAT(Parse({"--listn=:0"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--listen")));
}

TEST_F(AgentFlags, HelpSaysEveryOptionWithItsDefault) {
  const std::string help = table_.Help("ps", "Serves parameters.");
  for (const char* text : {"--rendezvous", "--advertise", "--interface", "--token-file", "30s"}) {
    EXPECT_THAT(help, HasSubstr(text));
  }
}

}  // namespace
}  // namespace gradwire::rpc
