// The typed face over real sockets.
#include "rpc/agent.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc/tensor/values.h"
#include "tests/support/matchers.h"

namespace gradwire::rpc {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Sample {
  std::string text;
  std::vector<int32_t> counts;
  std::optional<double> weight;
  GW_FIELDS(text, counts, weight);
};

enum class Color : uint8_t { kRed = 1, kBlue = 2 };

constexpr Function<int64_t(int64_t, int64_t)> kAdd{"test.add"};
constexpr Function<Sample(Sample, Color)> kSample{"test.sample"};
constexpr Function<void(std::string)> kNothing{"test.nothing"};
constexpr Function<std::string()> kWho{"test.who"};
constexpr Function<int64_t(int64_t)> kThrow{"test.throw"};
constexpr Function<int64_t(int64_t)> kLater{"test.later"};
constexpr Function<std::map<std::string, int64_t>(std::vector<std::string>)> kCount{"test.count"};

Registry Functions() {
  Registry functions;
  functions.Bind(kAdd, [](int64_t a, int64_t b) { return a + b; }, {.run = kInline})
      .Bind(kSample,
            [](Sample sample, Color color) -> absl::StatusOr<Sample> {
              if (color == Color::kRed) return absl::AbortedError("red");
              sample.counts.push_back(static_cast<int32_t>(color));
              return sample;
            })
      .Bind(kNothing,
            [](const std::string& text) {
              return text.empty() ? absl::InvalidArgumentError("empty") : absl::OkStatus();
            })
      .Bind(kWho, [](CallInfo& call) { return call.caller(); })
      .Bind(kThrow,
            [](int64_t n) -> int64_t { throw std::runtime_error("boom " + std::to_string(n)); })
      .Bind(kCount, [](const std::vector<std::string>& words) {
        std::map<std::string, int64_t> counts;
        for (const std::string& word : words) ++counts[word];
        return counts;
      });
  return functions;
}

TEST(Agent, TypedCallsOfEveryKind) {
  Promise<int64_t> later;
  Registry functions = Functions();
  functions.Bind(kLater, [&](int64_t) { return later.future(); });
  auto server = Agent::Start({.name = "server", .functions = functions});
  ASSERT_THAT(server, IsOk());
  auto client = Agent::Start({.name = "client", .peers = "server=" + (*server)->address()});
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Peer> peer = (*client)->Connect("server");
  ASSERT_THAT(peer, IsOk());

  EXPECT_THAT(peer->Call(kAdd(2, 3)), IsOkAndHolds(5));
  EXPECT_THAT(peer->Call(kWho()), IsOkAndHolds("client"));
  EXPECT_THAT(peer->Call(kNothing("x")), IsOk());
  EXPECT_THAT(peer->Call(kNothing("")),
              StatusIs(absl::StatusCode::kInvalidArgument, "test.nothing on server: empty"));
  const absl::StatusOr<Sample> sample = peer->Call(kSample(Sample{"hi", {1}, 0.5}, Color::kBlue));
  ASSERT_THAT(sample, IsOk());
  EXPECT_EQ(sample->text, "hi");
  EXPECT_EQ(sample->counts, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(sample->weight, 0.5);
  EXPECT_THAT(peer->Call(kSample(Sample{}, Color::kRed)), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(peer->Call(kThrow(7)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("test.throw threw"), HasSubstr("boom 7"))));
  const auto counts = peer->Call(kCount({"a", "b", "a"}));
  ASSERT_THAT(counts, IsOk());
  EXPECT_EQ(counts->at("a"), 2);

  Future<int64_t> waiting = peer->Async(kLater(1));
  EXPECT_THAT(waiting.Wait(absl::Milliseconds(20)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  later.Set(42);
  EXPECT_THAT(waiting.Wait(absl::Seconds(10)), IsOkAndHolds(42));
  EXPECT_THAT((*client)->Leave(absl::Seconds(5)), IsOk());
  EXPECT_THAT(peer->Call(kAdd(1, 1)), StatusIs(absl::StatusCode::kFailedPrecondition));
  client->reset();
  EXPECT_THAT(peer->Call(kAdd(1, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("gone")));
}

TEST(Agent, RanksSelfCallsAndTheOtherDirection) {
  auto a = Agent::Start({.name = "a", .functions = Functions()});
  ASSERT_THAT(a, IsOk());
  auto b = Agent::Start(
      {.name = "b", .peers = "a=" + (*a)->address() + ",b=127.0.0.1:1", .functions = Functions()});
  ASSERT_THAT(b, IsOk());
  absl::StatusOr<Peer> rank0 = (*b)->Connect(0);
  ASSERT_THAT(rank0, IsOk());
  EXPECT_EQ(rank0->name(), "a");
  EXPECT_THAT(rank0->Call(kWho()), IsOkAndHolds("b"));
  absl::StatusOr<Peer> self = (*b)->Connect(1);
  ASSERT_THAT(self, IsOk());
  EXPECT_THAT(self->Call(kWho()), IsOkAndHolds("b"));
  // b called a, so a can call b over the same session.
  EXPECT_THAT((*a)->At("b").Call(kWho()), IsOkAndHolds("a"));
  EXPECT_THAT((*b)->Connect(2), StatusIs(absl::StatusCode::kNotFound, HasSubstr("rank 2")));
}

TEST(Agent, StartUpErrorsNameWhatToDo) {
  EXPECT_THAT(Agent::Start({.name = "bad name"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("agent name")));
  EXPECT_THAT(Agent::Start({.name = "a", .peers = "nonsense"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name=host:port")));
  EXPECT_THAT(Agent::Start({.name = "a", .listen = "0.0.0.0:0"}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("--token-file"), HasSubstr("--insecure-transport"))));
  Registry twice = Functions();
  twice.Bind(kAdd, [](int64_t a, int64_t) { return a; });
  EXPECT_THAT(Agent::Start({.name = "a", .functions = twice}),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       AllOf(HasSubstr("test.add is bound twice"), HasSubstr("agent_test.cc"))));
  auto a = Agent::Start({.name = "a"});
  ASSERT_THAT(a, IsOk());
  EXPECT_THAT(Agent::Start({.name = "b", .listen = (*a)->address()}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("in use")));
  EXPECT_THAT((*a)->Connect("nobody"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("knows no nobody")));
}

TEST(Agent, TokenFiles) {
  const std::string path = ::testing::TempDir() + "/gw-token-" + std::to_string(getpid());
  EXPECT_THAT(Agent::Start({.name = "a", .token_file = path}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  std::ofstream(path) << "short\n";
  chmod(path.c_str(), 0600);
  EXPECT_THAT(Agent::Start({.name = "a", .token_file = path}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 bytes")));
  std::ofstream(path) << "0123456789abcdef0123456789abcdef\n";
  chmod(path.c_str(), 0644);
  EXPECT_THAT(Agent::Start({.name = "a", .token_file = path}),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("chmod 600")));
  chmod(path.c_str(), 0600);
  auto a = Agent::Start({.name = "a", .token_file = path, .functions = Functions()});
  ASSERT_THAT(a, IsOk());
  auto b = Agent::Start({.name = "b", .peers = "a=" + (*a)->address(), .token_file = path});
  ASSERT_THAT(b, IsOk());
  EXPECT_THAT((*b)->At("a").Call(kAdd(1, 2)), IsOkAndHolds(3));
  auto stranger = Agent::Start({.name = "s", .peers = "a=" + (*a)->address()});
  EXPECT_THAT((*stranger)->Connect("a"),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--token-file")));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace gradwire::rpc
