// Two agents over a transport that loses, doubles, reorders and cuts, with real threads: over
// sockets and within the process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/transport/faulty/faulty_transport.h"
#include "rpc/transport/inproc/inproc_transport.h"
#include "tests/rpc/agent/real_agent.h"
#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define GW_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define GW_SANITIZED 1
#endif
#endif

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;
using ::testing::AllOf;
using ::testing::HasSubstr;

#ifdef GW_SANITIZED
constexpr uint64_t kCalls = 20'000;
#else
constexpr uint64_t kCalls = 1'000'000;
#endif
constexpr size_t kLarge = 8u << 20;  // eight chunks
constexpr uint64_t kSeed = 20'261'201;

enum class Base { kInproc, kGrpc };

// `caller` calls `callee`; the faults are at the caller's side, both ways.
class Faults : public ::testing::TestWithParam<Base> {
 protected:
  Faults() {
    limits_.resend_timeout = absl::Milliseconds(30);
    limits_.liveness_timeout = absl::Milliseconds(400);
    limits_.heartbeat = absl::Milliseconds(100);
    limits_.handshake_timeout = absl::Milliseconds(400);
    limits_.resume_window = absl::Seconds(20);
    functions_.push_back(TextFunction("ping", [](CallInfo&, std::string text) { return text; }));
    functions_.push_back(TextFunction("size", [this](CallInfo&, std::string text) {
      ++ran_;
      return text.find_first_not_of('a') == std::string::npos ? std::to_string(text.size())
                                                              : "damaged";
    }));
    functions_.push_back(TextFunction("large", [this](CallInfo&, std::string) {
      ++ran_;
      return std::string(kLarge, 'r');
    }));
  }

  void Start() {
    for (auto& base : bases_) {
      base = GetParam() == Base::kGrpc ? MakeGrpcTransport() : MakeInprocTransport(hub_);
    }
    faulty_ = std::make_unique<FaultyTransport>(bases_[0].get(), kSeed);
    callee_ =
        std::make_unique<RealAgent>("callee", std::move(functions_), limits_, "", bases_[1].get());
    caller_ = std::make_unique<RealAgent>("caller", std::vector<BoundFunction>(), limits_, "",
                                          faulty_.get());
    ASSERT_THAT(
        caller_->node().AddPeer(
            "callee", callee_->Listen(GetParam() == Base::kGrpc ? "127.0.0.1:0" : "inproc:callee")),
        IsOk());
    ASSERT_THAT(caller_->Call("callee", "ping", "x"), IsOkAndHolds("x"));
  }
  void SetRates(FaultRates rates) {
    faulty_->SetRates(Direction::kOut, rates);
    faulty_->SetRates(Direction::kIn, rates);
  }

  AgentLimits limits_;
  std::vector<BoundFunction> functions_;
  std::atomic<int> ran_{0};
  const std::shared_ptr<InprocHub> hub_ = std::make_shared<InprocHub>();
  std::unique_ptr<Transport> bases_[2];
  std::unique_ptr<FaultyTransport> faulty_;
  std::unique_ptr<RealAgent> callee_;
  std::unique_ptr<RealAgent> caller_;
};

INSTANTIATE_TEST_SUITE_P(Over, Faults, ::testing::Values(Base::kInproc, Base::kGrpc),
                         [](const auto& info) {
                           return info.param == Base::kGrpc ? "Grpc" : "Inproc";
                         });

// Counts what is called, and what comes back.
struct Counted {
  std::atomic<uint64_t> sum{0};
  std::atomic<uint64_t> next{1};
  std::atomic<uint64_t> ended{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<std::atomic<uint8_t>> ends = std::vector<std::atomic<uint8_t>>(kCalls + 1);
};

TEST_P(Faults, AMillionCountedCallsAddUpExactly) {
  auto counted = std::make_shared<Counted>();
  BoundFunction add =
      TextFunction("add", [](CallInfo&, std::string text) { return text; }, Run::kInline);
  add.handler = [counted](std::shared_ptr<CallInfo>, ReceivedPayload arguments, ReplyFn reply) {
    uint64_t number = 0;
    std::memcpy(&number, arguments.head.data(), sizeof(number));
    counted->sum += number;
    Payload payload;
    payload.head = arguments.head;
    reply(std::move(payload));
  };
  functions_.push_back(add);
  Start();
  SetRates({.drop = 0.01, .duplicate = 0.01, .reorder = 0.01});
  const FunctionId* function = caller_->node().Intern("add", "string(string)");
  std::function<void()> call_next = [&] {
    const uint64_t number = counted->next++;
    if (number > kCalls) return;
    Payload payload;
    payload.head =
        Buffer::FromString(std::string(reinterpret_cast<const char*>(&number), sizeof(number)));
    caller_->node().StartCall("callee", function, std::move(payload), {.timeout = absl::Minutes(5)},
                              [&, number](absl::StatusOr<ReceivedPayload> outcome) {
                                uint64_t back = 0;
                                if (outcome.ok() && outcome->head.size() == sizeof(back)) {
                                  std::memcpy(&back, outcome->head.data(), sizeof(back));
                                }
                                if (back != number) ++counted->wrong;
                                ++counted->ends[number];
                                call_next();
                                ++counted->ended;
                              });
  };
  for (int i = 0; i < 256; ++i) call_next();
  ASSERT_TRUE(WaitUntil([&] { return counted->ended == kCalls; }, absl::Minutes(4)))
      << counted->ended;
  EXPECT_EQ(counted->sum, kCalls * (kCalls + 1) / 2);
  EXPECT_EQ(counted->wrong, 0u);
  for (uint64_t i = 1; i <= kCalls; ++i) ASSERT_EQ(counted->ends[i], 1) << i;
  const FaultCounts counts = faulty_->counts();
  EXPECT_GT(counts.dropped, 0u);
  EXPECT_GT(counts.duplicated, 0u);
  EXPECT_GT(counts.reordered, 0u);
  RecordProperty("dropped", static_cast<int>(counts.dropped));
}

// Each lane, each direction, each place: the call goes on over a new connection, and runs once.
TEST_P(Faults, CutAtEveryChunkBoundaryOf8MiB) {
  Start();
  const std::string argument(kLarge, 'a');
  ASSERT_THAT(caller_->Call("callee", "size", argument), IsOkAndHolds(std::to_string(kLarge)));
  for (const Lane lane : {Lane::kBulk, Lane::kControl}) {
    for (const Direction direction : {Direction::kOut, Direction::kIn}) {
      // The bytes go out as an argument, or come in as a result.
      const bool out = direction == Direction::kOut;
      for (uint64_t place = 0; place <= (lane == Lane::kBulk ? 8 : 1); ++place) {
        SCOPED_TRACE(absl::StrCat(LaneName(lane), out ? " out " : " in ", place));
        const uint64_t cuts = faulty_->counts().cut;
        ran_ = 0;
        faulty_->CutAfterMessages(direction, lane, place);
        const auto back = caller_->Call("callee", out ? "size" : "large", out ? argument : "");
        ASSERT_THAT(back, IsOk());
        EXPECT_TRUE(*back == (out ? std::to_string(kLarge) : std::string(kLarge, 'r')));
        EXPECT_EQ(ran_, 1);
        // The last place of the bulk lane may come after the result; signs of life and
        // acknowledgements bring the control lane's.
        if (lane == Lane::kBulk && place == 8) continue;
        EXPECT_TRUE(WaitUntil([&] { return faulty_->counts().cut == cuts + 1; }));
      }
    }
  }
}

TEST_P(Faults, RepliesLostOneWayEndAtTheDeadlineAndGoOnWhenHealed) {
  Start();
  ran_ = 0;
  faulty_->SetRates(Direction::kIn, {.drop = 1});
  EXPECT_THAT(caller_->Call("callee", "size", "aaa", {.timeout = absl::Milliseconds(200)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("call size to callee"), HasSubstr("waiting for the reply"),
                             HasSubstr("after "))));
  // This one is in flight while the connection is found dead, and cannot be replaced.
  Payload payload;
  payload.head = Buffer::FromString("aaaa");
  Future<std::string> later = caller_->Async("callee", "size", std::move(payload));
  ASSERT_TRUE(WaitUntil([&] { return ran_ == 2; }));
  ASSERT_TRUE(WaitUntil(
      [&] { return caller_->node().Peers()[0].session_state == SessionState::kDetached; }));
  faulty_->SetRates(Direction::kIn, {});
  EXPECT_THAT(later.Wait(absl::Seconds(60)), IsOkAndHolds("4"));
  EXPECT_THAT(caller_->Call("callee", "size", "a"), IsOkAndHolds("1"));
  EXPECT_EQ(ran_, 3);
}

TEST_P(Faults, RepliesLostForGoodEndTheSessionWithAReason) {
  limits_.resume_window = absl::Milliseconds(300);
  Start();
  faulty_->SetRates(Direction::kIn, {.drop = 1});
  const absl::Status status =
      caller_->Call("callee", "size", "aaa", {.timeout = absl::Seconds(50)}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("call size to callee"), HasSubstr("after "))));
  faulty_->SetRates(Direction::kIn, {});
  EXPECT_TRUE(WaitUntil([&] { return caller_->Call("callee", "ping", "x").ok(); }));
}

TEST_P(Faults, AnArgumentAboveALimitIsRefusedBeforeItLeaves) {
  limits_.max_tensor_bytes = 1u << 20;
  Start();
  EXPECT_THAT(
      caller_->Call("callee", "size", std::string((1u << 20) + 1, 'a')),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("1048577 bytes"), HasSubstr("max_tensor_bytes is 1048576"))));
  EXPECT_EQ(ran_, 0);
  EXPECT_THAT(caller_->Call("callee", "large", ""),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_tensor_bytes")));
  EXPECT_THAT(caller_->Call("callee", "size", std::string(1u << 20, 'a')), IsOkAndHolds("1048576"));
}

}  // namespace
}  // namespace gradwire::rpc::testing
