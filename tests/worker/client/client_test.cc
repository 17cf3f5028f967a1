// A worker's tables on real servers behind real sockets, all in this process.
#include "worker/client/client.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/server.h"
#include "tests/support/matchers.h"
#include "worker/ops.h"

namespace gradwire::worker {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Servers ps0 … and agents of workers that know them.
class Cluster {
 public:
  explicit Cluster(int server_count) {
    for (int i = 0; i < server_count; ++i) {
      servers_.push_back(*server::ParameterServer::Create({.owner_count = 1}));
      rpc::Registry functions;
      servers_.back()->Bind(functions);
      names_.push_back(absl::StrCat("ps", i));
      agents_.push_back(*rpc::Agent::Start({.name = names_.back(), .functions = functions}));
      absl::StrAppend(&peers_, i == 0 ? "" : ",", names_.back(), "=", agents_.back()->address());
    }
  }
  ~Cluster() { workers_.clear(); }

  Client Worker(const std::string& name) {
    workers_.push_back(*rpc::Agent::Start({.name = name, .listen = "", .peers = peers_}));
    return Client(*Servers::Connect(workers_.back().get(), names_, absl::Seconds(10)), /*seed=*/3);
  }
  void Kill(size_t server) { agents_[server].reset(); }
  const std::vector<std::string>& names() const { return names_; }
  rpc::Agent* worker(size_t i) { return workers_[i].get(); }

 private:
  std::vector<std::unique_ptr<server::ParameterServer>> servers_;
  std::vector<std::string> names_;
  std::string peers_;
  std::vector<std::unique_ptr<rpc::Agent>> agents_;
  std::vector<std::unique_ptr<rpc::Agent>> workers_;
};

std::vector<float> Values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  const auto* data = static_cast<const float*>(flat.const_data_ptr());
  return {data, data + flat.numel()};
}

at::Tensor Ids(const std::vector<int64_t>& ids) {
  return *rpc::FromBytes(
      {reinterpret_cast<const std::byte*>(ids.data()), ids.size() * sizeof(int64_t)},
      {static_cast<int64_t>(ids.size())}, at::kLong);
}

at::Tensor Parameter(at::IntArrayRef sizes, uint64_t seed) {
  SeededRng rng(seed);
  at::Tensor tensor = UniformTensor(sizes, 1, rng);
  tensor.set_requires_grad(true);
  return tensor;
}

class ClientTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Servers, ClientTest, ::testing::Values(1, 3));

// 300 000 elements are two blocks, small tensors one each.
TEST_P(ClientTest, TheFirstCreatorsValuesWinAndAPushIsAStep) {
  Cluster cluster(GetParam());
  Client first = cluster.Worker("worker0");
  Client second = cluster.Worker("worker1");
  std::vector<at::Tensor> a = {Parameter({300, 1000}, 1), Parameter({7}, 2)};
  std::vector<at::Tensor> b = {Parameter({300, 1000}, 3), Parameter({7}, 4)};
  auto weights_a = first.Dense("model", a, {.rule = optim::Sgd{.lr = 0.5}});
  auto weights_b = second.Dense("model", b, {.rule = optim::Sgd{.lr = 0.5}});
  ASSERT_THAT(weights_a.status(), IsOk());
  ASSERT_THAT(weights_b.status(), IsOk());
  const std::vector<float> start = Values(a[0]);
  ASSERT_THAT(weights_b->Pull(), IsOk());
  EXPECT_EQ(Values(b[0]), start);
  EXPECT_EQ(Values(b[1]), Values(a[1]));

  // d/dw of sum(w) is 1.
  a[0].sum().add(a[1].sum()).backward();
  ASSERT_THAT(weights_a->Push(), IsOk());
  EXPECT_FALSE(a[0].grad().defined());
  ASSERT_THAT(weights_b->Pull(), IsOk());
  std::vector<float> expected = start;
  for (float& value : expected) value -= 0.5f;
  EXPECT_EQ(Values(b[0]), expected);

  // Two backward passes, one push; both ways in one round trip.
  b[0].sum().add(b[1].sum()).backward();
  b[0].sum().add(b[1].sum()).backward();
  ASSERT_THAT(weights_b->PushPull(), IsOk());
  for (float& value : expected) value -= 1;
  EXPECT_EQ(Values(b[0]), expected);
  EXPECT_EQ(weights_b->version(), 2u);
  EXPECT_EQ(second.times().pushes, 1u);
  EXPECT_EQ(second.times().staleness, 0u);
}

// What a PushPull made is there at the next one; nothing is lost at the end.
TEST_P(ClientTest, OverlapIsAStepLateAndComplete) {
  Cluster cluster(GetParam());
  Client client = cluster.Worker("worker0");
  std::vector<at::Tensor> w = {Parameter({300, 1000}, 1)};
  auto weights = client.Dense("model", w, {.rule = optim::Sgd{.lr = 0.5}, .overlap = true});
  ASSERT_THAT(weights.status(), IsOk());
  const float start = Values(w[0])[0];
  float seen = start;
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(Values(w[0])[0], seen) << step;
    w[0].sum().backward();
    ASSERT_THAT(weights->PushPull(), IsOk());
    if (step > 0) seen -= 0.5f;
  }
  ASSERT_THAT(weights->WaitPush(), IsOk());
  EXPECT_EQ(Values(w[0])[0], seen - 0.5f);
  EXPECT_EQ(weights->version(), 4u);
  // Refresh takes the newest, also what others did since.
  Client other = cluster.Worker("worker1");
  std::vector<at::Tensor> b = {Parameter({300, 1000}, 2)};
  auto theirs = other.Dense("model", b, {.rule = optim::Sgd{.lr = 0.5}});
  ASSERT_THAT(theirs.status(), IsOk());
  b[0].sum().backward();
  ASSERT_THAT(theirs->Push(), IsOk());
  ASSERT_THAT(client.Refresh(), IsOk());
  EXPECT_EQ(Values(w[0])[0], seen - 1.0f);
}

TEST_P(ClientTest, APullBetweenForwardAndBackwardRaises) {
  Cluster cluster(GetParam());
  Client client = cluster.Worker("worker0");
  std::vector<at::Tensor> w = {Parameter({4, 4}, 1)};
  auto weights = client.Dense("model", w, {});
  ASSERT_THAT(weights.status(), IsOk());
  const at::Tensor loss = w[0].mul(w[0]).sum();
  ASSERT_THAT(weights->Pull(), IsOk());
  EXPECT_THAT(rpc::TorchToStatus("backward",
                                 [&] {
                                   loss.backward();
                                   return absl::OkStatus();
                                 }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("modified by an inplace operation")));
}

TEST_P(ClientTest, WhatCannotBePushedIsNamed) {
  Cluster cluster(GetParam());
  Client client = cluster.Worker("worker0");
  std::vector<at::Tensor> w = {Parameter({4, 4}, 1), Parameter({2}, 2)};
  auto weights = client.Dense("model", w, {});
  ASSERT_THAT(weights.status(), IsOk());
  w[0].sum().backward();
  EXPECT_THAT(weights->Push(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("parameter 1 [2] of model"), HasSubstr("no gradient"))));
  EXPECT_THAT(client.Dense("model", {Parameter({5}, 1)}, {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("dense [16, 2]"), HasSubstr("dense [5]"))));
  EXPECT_THAT(client.Dense("other", {w[0].t()}, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("contiguous")));
  EXPECT_THAT(client.Embedding("e", {.dim = 0}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dim")));
  auto rows = client.Embedding("e", {.dim = 2});
  ASSERT_THAT(rows.status(), IsOk());
  EXPECT_THAT(rows->Lookup(Ids({1, -2})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("id 1 for table e is -2")));
  EXPECT_THAT(rows->Push(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no lookup of table e")));
}

TEST_P(ClientTest, AnIdOfSeveralPlacesGetsTheSumOfItsGradients) {
  Cluster cluster(GetParam());
  Client client = cluster.Worker("worker0");
  auto rows =
      client.Embedding("emb", {.dim = 2, .rule = optim::Sgd{.lr = 1}, .init = optim::Constant(10)});
  ASSERT_THAT(rows.status(), IsOk());
  auto first = rows->Lookup(Ids({5, 9, 5, 5}));
  ASSERT_THAT(first.status(), IsOk());
  EXPECT_EQ(Values(*first), std::vector<float>(8, 10));
  auto second = rows->Lookup(Ids({9, 1}));
  ASSERT_THAT(second.status(), IsOk());
  first->sum().add(second->sum()).backward();
  ASSERT_THAT(rows->Push(), IsOk());
  EXPECT_EQ(Values(*rows->Lookup(Ids({5, 9, 1, 77}), {.create = false})),
            (std::vector<float>{7, 7, 8, 8, 9, 9, 10, 10}));
  // Judging keeps no gradient and makes no row.
  EXPECT_THAT(rows->Push(), StatusIs(absl::StatusCode::kFailedPrecondition));
  // An empty batch, and ids of another shape.
  EXPECT_THAT(rows->Lookup(Ids({})).status(), IsOk());
  auto square = rows->Lookup(Ids({5, 5, 9, 9}).reshape({2, 2}));
  ASSERT_THAT(square.status(), IsOk());
  EXPECT_EQ(square->sizes().vec(), (std::vector<int64_t>{2, 2, 2}));
}

// The same rows whatever the number of servers.
TEST(Client, InitialValuesDependOnSeedTableAndIdAlone) {
  std::vector<std::vector<float>> seen;
  for (const int count : {1, 2, 5}) {
    Cluster cluster(count);
    Client client = cluster.Worker("worker0");
    auto rows = client.Embedding("emb", {.dim = 3, .init = optim::Normal(0, 1)});
    ASSERT_THAT(rows.status(), IsOk());
    seen.push_back(Values(*rows->Lookup(Ids({1, 2, 3, 1000, 123456789}))));
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0], seen[2]);
}

// One worker and one server: the bits of a loop without any of this.
TEST(Client, TrainingIsBitEqualToOneProcess) {
  Cluster cluster(1);
  Client client = cluster.Worker("worker0");
  const optim::Adagrad rule{.lr = 0.1, .initial_accumulator = 0.1, .eps = 0};
  Mlp remote({20, 30, 4}, 5);
  Mlp alone({20, 30, 4}, 5);
  auto weights = client.Dense("mlp", remote.parameters(), {.rule = rule});
  ASSERT_THAT(weights.status(), IsOk());
  const optim::Rule here = *optim::Rule::Create(rule);
  std::vector<std::vector<float>> slots;
  for (const at::Tensor& parameter : alone.parameters()) {
    const auto count = static_cast<size_t>(parameter.numel());
    slots.emplace_back(here.SlotCount(count));
    here.InitSlots(slots.back(), count);
  }
  SeededRng rng(9);
  for (int step = 0; step < 30; ++step) {
    const at::Tensor x = UniformTensor({16, 20}, 1, rng);
    std::vector<int64_t> labels(16);
    for (int64_t& label : labels) label = static_cast<int64_t>(rng.Below(4));
    CrossEntropy(remote.forward(x), Ids(labels)).backward();
    ASSERT_THAT(weights->PushPull(), IsOk());
    CrossEntropy(alone.forward(x), Ids(labels)).backward();
    for (size_t i = 0; i < slots.size(); ++i) {
      at::Tensor parameter = alone.parameters()[i];
      const std::vector<float> gradient = Values(parameter.grad());
      here.Apply(here.lr(), {static_cast<float*>(parameter.mutable_data_ptr()), gradient.size()},
                 slots[i], gradient);
      parameter.mutable_grad().reset();
    }
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(Values(remote.parameters()[i]), Values(alone.parameters()[i])) << i;
  }
}

TEST(Client, AServerThatIsGoneIsNamed) {
  Cluster cluster(2);
  Client client = cluster.Worker("worker0");
  std::vector<at::Tensor> w = {Parameter({300, 1000}, 1)};
  auto weights = client.Dense("model", w, {});
  ASSERT_THAT(weights.status(), IsOk());
  cluster.Kill(1);
  const absl::Status status = weights->Pull();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps1")));
  EXPECT_THAT(Servers::Connect(cluster.worker(0), {"ps0", "ps0"}, absl::Seconds(1)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ps0 is named twice")));
}

}  // namespace
}  // namespace gradwire::worker
