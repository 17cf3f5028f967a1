// Tables of rows behind a real socket: create, pull, push, once each.
#include <gtest/gtest.h>

#include <limits>

#include "tests/server/server_testutil.h"

namespace gradwire::server::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class RowsTest : public ::testing::TestWithParam<size_t> {
 protected:
  RowsTest() : world_({.owner_count = GetParam()}) {}

  static TableReply Create(rpc::Peer& worker, const TableSpec& spec) {
    auto reply = worker.Call(kCreateTable({.spec = spec}));
    EXPECT_THAT(reply.status(), IsOk());
    return reply.ok() ? *reply : TableReply();
  }
  std::vector<float> Pull(rpc::Peer& worker, uint64_t table, const std::vector<int64_t>& ids) {
    auto reply = worker.Call(kPullRows({.table = table, .ids = Ids(ids)}));
    EXPECT_THAT(reply.status(), IsOk());
    return reply.ok() ? Floats(reply->rows) : std::vector<float>();
  }
  static absl::Status Push(rpc::Peer& worker, uint64_t table, uint64_t sequence,
                           const std::vector<int64_t>& ids, const std::vector<float>& gradients,
                           uint64_t finished_below = 0) {
    return worker
        .Call(kPushRows({.table = table,
                         .sequence = sequence,
                         .finished_below = finished_below,
                         .ids = Ids(ids),
                         .gradients = Rows(2, gradients)}))
        .status();
  }

  World world_;
};
INSTANTIATE_TEST_SUITE_P(Owners, RowsTest, ::testing::Values(1, 3));

TEST_P(RowsTest, APushIsOneStepOfTheRule) {
  rpc::Peer worker = world_.Worker("worker0");
  const uint64_t table =
      Create(worker, RowsSpec("emb", 2, optim::Sgd{.lr = 0.5}, optim::Constant(1))).table;
  EXPECT_THAT(Pull(worker, table, {7, 3}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Push(worker, table, 1, {7, 3}, {2, 4, -2, 0}), IsOk());
  EXPECT_THAT(Pull(worker, table, {3, 7, 9}), ElementsAre(2, 1, 0, -1, 1, 1));
  EXPECT_THAT(worker.Call(kSetLearningRate(table, 0.25)), IsOk());
  EXPECT_THAT(Push(worker, table, 2, {3}, {4, 4}), IsOk());
  EXPECT_THAT(Pull(worker, table, {3}), ElementsAre(1, 0));
}

TEST_P(RowsTest, ARepeatedPushChangesNothing) {
  rpc::Peer worker = world_.Worker("worker0");
  const uint64_t table = Create(worker, RowsSpec("emb", 2, optim::Sgd{.lr = 1})).table;
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5};
  const std::vector<float> ones(10, -1);
  EXPECT_THAT(Push(worker, table, 1, ids, ones), IsOk());
  EXPECT_THAT(Push(worker, table, 1, ids, ones), IsOk());
  EXPECT_THAT(Push(worker, table, 2, ids, ones), IsOk());
  EXPECT_EQ(Pull(worker, table, ids), std::vector<float>(10, 2));
  EXPECT_THAT(Push(worker, table, 3, ids, ones, /*finished_below=*/3), IsOk());
  EXPECT_THAT(Push(worker, table, 2, ids, ones),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("finished all below 3")));
  EXPECT_EQ(Pull(worker, table, ids), std::vector<float>(10, 3));
  EXPECT_EQ(world_.server().Statistics().repeated_pushes, 1u);
}

TEST_P(RowsTest, APullWaitsForThePushItNames) {
  rpc::Peer worker = world_.Worker("worker0");
  const uint64_t table = Create(worker, RowsSpec("emb", 2, optim::Sgd{.lr = 1})).table;
  const PullRowsRequest pull{.table = table, .after = 1, .ids = Ids({5, 6, 7})};
  rpc::Future<RowsReply> early = worker.Async(kPullRows(pull));
  EXPECT_THAT(worker.Call(kPullRows(pull), {.timeout = absl::Milliseconds(100)}).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(early.ready());
  EXPECT_THAT(Push(worker, table, 1, {5, 6, 7}, std::vector<float>(6, -1)), IsOk());
  auto reply = std::move(early).Wait(absl::Seconds(10));
  ASSERT_THAT(reply.status(), IsOk());
  EXPECT_EQ(Floats(reply->rows), std::vector<float>(6, 1));
  // A push that was refused is no reason to wait.
  EXPECT_THAT(Push(worker, table, 2, {5}, {1, std::numeric_limits<float>::quiet_NaN()}),
              StatusIs(kInvalid, AllOf(HasSubstr("number 1 of the gradients is nan"),
                                       HasSubstr("pushing to table emb"))));
  EXPECT_THAT(worker.Call(kPullRows({.table = table, .after = 2, .ids = Ids({5, 6, 7})})).status(),
              IsOk());
}

TEST_P(RowsTest, PushThenPullIsOneRoundTrip) {
  rpc::Peer worker = world_.Worker("worker0");
  const uint64_t table = Create(worker, RowsSpec("emb", 2, optim::Sgd{.lr = 1})).table;
  auto reply = worker.Call(kPushPullRows(
      {.push = {.table = table, .sequence = 1, .ids = Ids({4}), .gradients = Rows(2, {-3, -5})},
       .pull = {.table = table, .after = 1, .ids = Ids({4, 8})}}));
  ASSERT_THAT(reply.status(), IsOk());
  EXPECT_THAT(Floats(reply->rows), ElementsAre(3, 5, 0, 0));
}

TEST_P(RowsTest, WhatDoesNotFitIsRefusedByName) {
  rpc::Peer worker = world_.Worker("worker0");
  const uint64_t table = Create(worker, RowsSpec("emb", 2, optim::Sgd{.lr = 1})).table;
  EXPECT_THAT(worker.Call(kPullRows({.table = table + 1, .ids = Ids({1})})).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("dropped")));
  EXPECT_THAT(worker.Call(kPullRows({.table = table, .ids = Ids({1, -4})})).status(),
              StatusIs(kInvalid, HasSubstr("number 1 of the ids of table emb is -4")));
  EXPECT_THAT(worker.Call(kPullRows({.table = table, .ids = Flat({1})})).status(),
              StatusIs(kInvalid, HasSubstr("must be int64")));
  EXPECT_THAT(worker.Call(kPullRows({.table = table, .map_epoch = 9, .ids = Ids({1})})).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shard map 9")));
  EXPECT_THAT(worker.Call(kPullDense({.table = table})).status(),
              StatusIs(kInvalid, HasSubstr("it is not dense")));
  EXPECT_THAT(
      worker
          .Call(kPushRows(
              {.table = table, .sequence = 1, .ids = Ids({1, 2}), .gradients = Rows(2, {1, 2})}))
          .status(),
      StatusIs(kInvalid, HasSubstr("must be [2, 2]")));
  EXPECT_THAT(Push(worker, table, 0, {1}, {1, 1}),
              StatusIs(kInvalid, HasSubstr("without a number")));
  // Empty is no error.
  EXPECT_THAT(Push(worker, table, 2, {}, {}), IsOk());
  EXPECT_THAT(Pull(worker, table, {}), ElementsAre());
}

TEST_P(RowsTest, TheFirstDefinitionWins) {
  rpc::Peer worker0 = world_.Worker("worker0");
  rpc::Peer worker1 = world_.Worker("worker1");
  const TableReply first = Create(worker0, RowsSpec("emb", 2, optim::Sgd{.lr = 1}));
  EXPECT_TRUE(first.created);
  const TableReply second = Create(worker1, RowsSpec("emb", 2, optim::Sgd{.lr = 1}));
  EXPECT_FALSE(second.created);
  EXPECT_EQ(second.table, first.table);
  EXPECT_EQ(second.creator, "worker0");
  EXPECT_THAT(
      worker1.Call(kCreateTable({.spec = RowsSpec("emb", 3, optim::Sgd{.lr = 1})})).status(),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          AllOf(HasSubstr("created by worker0"), HasSubstr("rows of 2"), HasSubstr("rows of 3"))));
  EXPECT_THAT(worker1.Call(kCreateTable({.spec = RowsSpec("emb", 2, optim::Adam{})})).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("sgd("), HasSubstr("adam("))));
  EXPECT_THAT(worker1.Call(kDropTable(first.table)), IsOk());
  EXPECT_THAT(worker1.Call(kDescribeTable("emb")).status(), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(Create(worker1, RowsSpec("emb", 3, optim::Sgd{.lr = 1})).created);
}

TEST_P(RowsTest, AZombieCannotPush) {
  rpc::Peer old_life = world_.Worker("worker0");
  const uint64_t table = Create(old_life, RowsSpec("emb", 2, optim::Sgd{.lr = 1})).table;
  EXPECT_THAT(Push(old_life, table, 5, {1}, {1, 1}), IsOk());
  rpc::Peer new_life = world_.Worker("worker0");
  EXPECT_THAT(Push(new_life, table, 1, {1}, {1, 1}), IsOk());
  EXPECT_FALSE(Push(old_life, table, 6, {1}, {1, 1}).ok());
  EXPECT_THAT(Pull(new_life, table, {1}), ElementsAre(-2, -2));
}

TEST(Server, TheMemoryLimitIsNamedAndServingGoesOn) {
  World world({.owner_count = 1, .memory_limit_bytes = 4 << 20});
  rpc::Peer worker = world.Worker("worker0");
  const uint64_t table =
      worker.Call(kCreateTable({.spec = RowsSpec("emb", 256, optim::Sgd{.lr = 1})}))->table;
  std::vector<int64_t> ids(1000);
  absl::Status status;
  int64_t next = 0;
  while (status.ok() && next < 100'000) {
    for (int64_t& id : ids) id = next++;
    status = worker.Call(kPullRows({.table = table, .ids = Ids(ids)})).status();
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               AllOf(HasSubstr("--memory-limit"), HasSubstr("emb"))));
  const auto described = worker.Call(kDescribeTable("emb"));
  ASSERT_THAT(described.status(), IsOk());
  EXPECT_EQ(described->row_count % 1000, 0u);  // whole batches or nothing
  EXPECT_LE(described->resident_bytes, size_t{4} << 20);
  EXPECT_THAT(worker.Call(kPullRows({.table = table, .ids = Ids({0, 1, 2})})).status(), IsOk());
  EXPECT_THAT(
      worker.Call(kPullRows({.table = table, .create = false, .ids = Ids({next + 5})})).status(),
      IsOk());
}

}  // namespace
}  // namespace gradwire::server::testing
