// A program that leaves at the first signal and ends at the second (rpc/base/termination.h). That
// it leaves: process_faults_test.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "rpc/agent.h"
#include "rpc/tensor/values.h"
#include "tests/rpc/agent_process.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::WaitUntil;

TEST(Termination, TheSecondSignalEndsTheProcessAtOnce) {
  const auto b = AgentProcess::Start({"--name=b"});
  ASSERT_THAT(b->status(), IsOk());
  AgentOptions options;
  options.name = "a";
  options.peers = "b=" + b->address();
  const auto a = Agent::Start(std::move(options));
  ASSERT_THAT(a, IsOk());
  const Peer peer = (*a)->At("b");
  // Its process would wait for this handler.
  const Future<void> stuck = peer.Async(kStuck());
  ASSERT_TRUE(WaitUntil([&] {
    const absl::StatusOr<int64_t> held = peer.Call(kHeldCount());
    return held.ok() && *held == 1;
  }));
  b->Signal(SIGTERM);
  b->Signal(SIGINT);  // another one, since equal ones that wait are one
  const absl::StatusOr<int> end = b->WaitForEnd(absl::Seconds(30));
  ASSERT_THAT(end, IsOk());
  EXPECT_TRUE(WIFSIGNALED(*end)) << *end;
}

}  // namespace
}  // namespace gradwire::rpc::testing
