// What --rendezvous may say, and the static list.
#include "rpc/cluster/rendezvous_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "rpc/base/sim.h"
#include "rpc/cluster/static_store.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::HasSubstr;

TEST(RendezvousConfigTest, Forms) {
  EXPECT_EQ(ParseRendezvous("")->kind, RendezvousKind::kNone);
  const auto tcp = ParseRendezvous("tcp://10.0.0.5:6000/");
  ASSERT_THAT(tcp, IsOk());
  EXPECT_EQ(tcp->kind, RendezvousKind::kTcp);
  EXPECT_EQ(tcp->address, "10.0.0.5:6000");
  EXPECT_EQ(ParseRendezvous("tcp://[::1]:6000")->address, "[::1]:6000");
  const auto file = ParseRendezvous("file:///shared/job 7//");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->folder, "/shared/job 7");
  const auto list = ParseRendezvous("static:ps0=10.0.0.5:7000,w0=[::1]:7");
  ASSERT_THAT(list, IsOk());
  EXPECT_EQ(list->members,
            (std::vector<Member>{{"ps0", "10.0.0.5:7000", {}, 0}, {"w0", "[::1]:7", {}, 1}}));
}

TEST(RendezvousConfigTest, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"10.0.0.5:6000", "write tcp://host:port, file:///folder or static:"},
      {"etcd://x", "no known kind"},
      {"tcp://10.0.0.5", "no port"},
      {"tcp://10.0.0.5:0", "port 0"},
      {"tcp://", "no port"},
      {"file://shared/job", "three slashes"},
      {"file:///", "the root"},
      {"file:///a\nb", "control characters"},
      {"static:", "the list is empty"},
      {"static:ps0", "is not name=host:port"},
      {"static:ps0=10.0.0.5:1,", "is not name=host:port"},
      {"static:p s=10.0.0.5:1", "no agent name"},
      {"static:ps0=10.0.0.5:1,ps0=10.0.0.6:1", "names ps0 twice, at 10.0.0.5:1 and 10.0.0.6:1"},
      {"static:ps0=10.0.0.5", "no port"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(ParseRendezvous(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << text;
  }
}

TEST(StaticStoreTest, GivesTheListAndGrowingIncarnations) {
  SimLoop loop;
  StaticStore store(&loop, *ParseMembers("ps0=10.0.0.5:7000,w0=10.0.0.6:7000"));
  const auto first = store.Join({.name = "w0", .instance = 1, .world_size = 2}).outcome();
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->self.rank, 1);
  EXPECT_EQ(first->world_size, 2);
  ASSERT_EQ(first->members.size(), 2u);
  EXPECT_EQ(first->members[0].name, "ps0");
  EXPECT_EQ(first->self.incarnation.value, static_cast<uint64_t>(loop.WallNowNanos()));
  const auto second = store.Join({.name = "w0", .instance = 2}).outcome();
  EXPECT_GT(second->self.incarnation, first->self.incarnation);
  const auto guest = store.Join({.name = "top", .instance = 3}).outcome();
  ASSERT_THAT(guest, IsOk());
  EXPECT_EQ(guest->self.rank, kNoRank);

  EXPECT_EQ(store.Resolve("ps0", absl::Hours(1)).outcome()->address, "10.0.0.5:7000");
  EXPECT_EQ(store.ResolveRank(1, absl::Hours(1)).outcome()->name, "w0");
  EXPECT_THAT(store.Resolve("ps9", absl::Hours(1)).outcome(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the list has: ps0, w0")));
  EXPECT_THAT(store.ResolveRank(2, absl::Hours(1)).outcome(),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store.Join({.name = "w0", .instance = 1, .world_size = 3}).outcome(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("the list has 2")));
  EXPECT_THAT(store.Join({.name = "w1", .instance = 1, .world_size = 2}).outcome(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("isn't in the list")));
  EXPECT_THAT(store.Join({.name = "w0", .instance = 1, .world_size = 2, .rank = 0}).outcome(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("asks for rank 0")));
}

}  // namespace
}  // namespace gradwire::rpc
