// The simulated network's own faults.
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/rpc/transport/worlds.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two processes and a way to connect them.
class SimNetworkTest : public ::testing::Test {
 protected:
  explicit SimNetworkTest(uint64_t seed = 1) : network_(&loop_, seed) {
    a_ = network_.AddProcess("a");
    b_ = network_.AddProcess("b");
    auto listener =
        b_->transport()->Listen("sim:b", [this](std::shared_ptr<Connection> connection, Lane) {
          accepted_ = std::make_shared<Talker>();
          accepted_->SetConnection(std::move(connection));
          return accepted_;
        });
    EXPECT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
  }
  ~SimNetworkTest() override {
    for (const auto& talker : {dialled_, accepted_}) {
      if (talker == nullptr) continue;
      EXPECT_THAT(talker->broken(), ::testing::IsEmpty());
      // A killed process's connection is never reported closed.
      talker->SetConnection(nullptr);
    }
  }

  void Dial(Lane lane = Lane::kControl, absl::Duration timeout = absl::Seconds(1)) {
    dialled_ = std::make_shared<Talker>();
    dialled_->SetConnection(a_->transport()->Dial("sim:b", lane, dialled_, timeout));
  }
  void Connect(Lane lane = Lane::kControl) {
    Dial(lane);
    loop_.RunFor(absl::Milliseconds(10));
    ASSERT_NE(accepted_, nullptr);
    ASSERT_FALSE(dialled_->closed());
  }
  void SayBoth(int count) {
    for (int i = 0; i < count; ++i) {
      dialled_->Say(absl::StrCat(i));
      accepted_->Say(absl::StrCat(i));
    }
    loop_.RunFor(absl::Seconds(1));
  }

  SimLoop loop_;
  SimNetwork network_;
  SimProcess* a_ = nullptr;
  SimProcess* b_ = nullptr;
  std::shared_ptr<Talker> dialled_, accepted_;
  std::unique_ptr<Listener> listener_;
};

TEST_F(SimNetworkTest, ALinkMayHaveFaultsOfItsOwn) {
  network_.LinkFaults("a", "b", Lane::kControl).loss = 1;
  Connect();
  SayBoth(20);
  EXPECT_EQ(accepted_->received_count(), 0u);
  EXPECT_EQ(dialled_->received_count(), 20u);
  EXPECT_EQ(network_.lost_count(), 20u);
  // The other lane has the common ones.
  Connect(Lane::kBulk);
  SayBoth(20);
  EXPECT_EQ(accepted_->received_count(), 20u);
}

TEST_F(SimNetworkTest, LossDuplicationAndReorderingFire) {
  network_.faults() = {.loss = 0.1, .duplicate = 0.1, .reorder = 0.1};
  Connect();
  SayBoth(500);
  EXPECT_GT(network_.lost_count(), 50u);
  EXPECT_GT(network_.duplicated_count(), 50u);
  EXPECT_GT(network_.reordered_count(), 50u);
  EXPECT_EQ(accepted_->received_count() + dialled_->received_count(),
            1000 - network_.lost_count() + network_.duplicated_count());
}

TEST_F(SimNetworkTest, ACutIsSeenByBoth) {
  Connect();
  network_.Cut("a", "b");
  SayBoth(1);
  EXPECT_THAT(dialled_->why(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(accepted_->why(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(network_.cut_count(), 2u);  // ends
}

TEST_F(SimNetworkTest, ASilentCutIsSeenByNobody) {
  Connect();
  network_.CutSilently("a", "b");
  SayBoth(3);
  EXPECT_FALSE(dialled_->closed() || accepted_->closed());
  EXPECT_EQ(dialled_->received_count() + accepted_->received_count(), 0u);
}

TEST_F(SimNetworkTest, AHalfOpenCutIsSeenByOneSide) {
  Connect();
  network_.CutHalfOpen("b", "a");
  SayBoth(3);
  EXPECT_TRUE(accepted_->closed());
  EXPECT_FALSE(dialled_->closed());
  EXPECT_EQ(dialled_->received_count() + accepted_->received_count(), 0u);
}

TEST_F(SimNetworkTest, APartitionIsOneWay) {
  Connect();
  network_.Partition("a", "b", true);
  SayBoth(3);
  EXPECT_EQ(accepted_->received_count(), 0u);
  EXPECT_EQ(dialled_->received_count(), 3u);
  // Neither the end of a connection passes …
  dialled_->connection()->Close(absl::CancelledError("over"));
  loop_.RunFor(absl::Seconds(1));
  EXPECT_TRUE(dialled_->closed());
  EXPECT_FALSE(accepted_->closed());
  // … nor a dial.
  Dial();
  loop_.RunFor(absl::Seconds(2));
  EXPECT_THAT(dialled_->why(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no answer")));
  network_.Partition("a", "b", false);
  Connect();
}

TEST_F(SimNetworkTest, APausedProcessHearsEverythingWhenItResumes) {
  Connect();
  network_.Pause(b_);
  SayBoth(0);
  for (int i = 0; i < 5; ++i) dialled_->Say(absl::StrCat(i));
  loop_.RunFor(absl::Seconds(1));
  EXPECT_EQ(accepted_->received_count(), 0u);
  network_.Resume(b_);
  loop_.RunFor(absl::Seconds(1));
  EXPECT_THAT(accepted_->received(), ElementsAre("0", "1", "2", "3", "4"));
}

TEST_F(SimNetworkTest, ADialToAPausedProcessIsGivenUp) {
  network_.Pause(b_);
  Dial();
  loop_.RunFor(absl::Seconds(2));
  EXPECT_THAT(dialled_->why(), StatusIs(absl::StatusCode::kUnavailable));
  network_.Resume(b_);
  loop_.RunFor(absl::Seconds(2));
  EXPECT_TRUE(accepted_ == nullptr || accepted_->closed());
}

TEST_F(SimNetworkTest, AKilledProcessIsNeverCalledAgain) {
  for (const bool silent : {false, true}) {
    Connect();
    const int calls = accepted_->next_calls();
    dialled_->Say("x");
    network_.Kill(b_, silent);
    SayBoth(1);
    EXPECT_EQ(accepted_->received_count(), 0u);
    EXPECT_EQ(accepted_->next_calls(), calls);
    EXPECT_FALSE(accepted_->closed());
    EXPECT_EQ(dialled_->closed(), !silent);
    accepted_->SetConnection(nullptr);
    dialled_->SetConnection(nullptr);
    if (silent) break;
    // It comes back under its name.
    listener_ = nullptr;
    b_ = network_.AddProcess("b");
    auto listener =
        b_->transport()->Listen("sim:b", [this](std::shared_ptr<Connection> connection, Lane) {
          accepted_ = std::make_shared<Talker>();
          accepted_->SetConnection(std::move(connection));
          return accepted_;
        });
    ASSERT_THAT(listener, IsOk());
    listener_ = *std::move(listener);
  }
}

TEST_F(SimNetworkTest, DialsMayFail) {
  network_.faults().dial_failure = 1;
  Dial();
  loop_.RunFor(absl::Seconds(1));
  EXPECT_THAT(dialled_->why(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("sim:b")));
}

// Everything that a run of one seed shows.
std::pair<uint64_t, uint64_t> TraceOf(uint64_t seed) {
  SimLoop loop;
  SimNetwork network(&loop, seed);
  network.faults() = {.loss = 0.05, .duplicate = 0.05, .reorder = 0.05};
  SimProcess* a = network.AddProcess("a");
  SimProcess* b = network.AddProcess("b");
  auto acceptor = std::make_shared<Talker>();
  acceptor->on_message = [&](const std::string& text) {
    if (text.size() < 100) acceptor->Say(text + "x");
  };
  auto listener =
      b->transport()->Listen("sim:b", [&](std::shared_ptr<Connection> connection, Lane) {
        acceptor->SetConnection(std::move(connection));
        return acceptor;
      });
  auto dialler = std::make_shared<Talker>();
  dialler->on_message = [&](const std::string& text) { dialler->Say(text); };
  dialler->SetConnection(a->transport()->Dial("sim:b", Lane::kControl, dialler, absl::Seconds(1)));
  for (int i = 0; i < 20; ++i) dialler->Say(absl::StrCat(i));
  loop.RunFor(absl::Seconds(5));
  dialler->connection()->Close(absl::CancelledError("over"));
  loop.RunFor(absl::Seconds(5));
  return {network.trace_hash(), network.delivered_count()};
}

TEST(SimNetwork, ASeedDecidesTheTrace) {
  EXPECT_EQ(TraceOf(3), TraceOf(3));
  EXPECT_NE(TraceOf(3).first, TraceOf(4).first);
  EXPECT_GT(TraceOf(3).second, 100u);
}

}  // namespace
}  // namespace gradwire::rpc::testing
