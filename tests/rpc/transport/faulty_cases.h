// What the faulty wrapper does to any transport: cuts, one-way loss. Instantiated like the suite.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/rpc/transport/worlds.h"

namespace gradwire::rpc::testing {

class FaultySuite : public TransportSuite {
 protected:
  FaultyTransport& dialling() { return static_cast<FaultyWorld&>(*world_).faulty_dialler(); }
  FaultyTransport& accepting() { return static_cast<FaultyWorld&>(*world_).faulty_acceptor(); }
};

TEST_P(FaultySuite, ACutOfWhatArrivesComesAfterEachMessage) {
  using ::gradwire::testing::StatusIs;
  Listen();
  for (uint64_t n = 0; n < 8; ++n) {
    accepting().CutAfterMessages(Direction::kIn, Lane::kBulk, n);
    auto dialler = Dial(Lane::kBulk);
    auto acceptor = Accepted(n);
    for (int i = 0; i < 10; ++i) dialler->Say(std::string(100'000, 'x'));
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); })) << n;
    EXPECT_EQ(acceptor->received_count(), n);
    EXPECT_EQ(accepting().counts().cut, n + 1);
    EXPECT_THAT(acceptor->why(), StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kUnavailable));
  }
  // Only once each, and only on that lane.
  auto bulk = Dial(Lane::kBulk);
  bulk->Say("x");
  ASSERT_TRUE(Eventually([&] { return Accepted(8)->received_count() == 1; }));
}

TEST_P(FaultySuite, ACutOfWhatLeavesLetsNoMorePass) {
  Listen();
  for (uint64_t n = 0; n < 6; ++n) {
    dialling().CutAfterMessages(Direction::kOut, Lane::kControl, n);
    auto dialler = Dial();
    for (int i = 0; i < 10; ++i) dialler->Say("x");
    ASSERT_TRUE(Eventually([&] { return dialler->closed(); })) << n;
    EXPECT_EQ(dialling().counts().cut, n + 1);
  }
  for (size_t i = 0; i < accepted_count(); ++i) {
    auto acceptor = Accepted(i);
    ASSERT_TRUE(Eventually([&] { return acceptor->closed(); }));
    EXPECT_LE(acceptor->received_count(), 5u);
  }
}

TEST_P(FaultySuite, ACutAfterBytesNeverTearsAMessage) {
  Listen();
  const uint64_t bytes[] = {0, 1, 999, 1000, 1001, 2500};
  const size_t whole[] = {0, 1, 1, 1, 2, 3};  // messages of 1000 bytes seen before the cut
  for (size_t i = 0; i < std::size(bytes); ++i) {
    accepting().CutAfterBytes(Direction::kIn, Lane::kBulk, bytes[i]);
    auto dialler = Dial(Lane::kBulk);
    auto acceptor = Accepted(i);
    for (int k = 0; k < 5; ++k) dialler->Say(std::string(1000, 'x'));
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    EXPECT_EQ(acceptor->received_count(), whole[i]) << bytes[i];
  }
}

TEST_P(FaultySuite, OneDirectionCanBeLostAlone) {
  accepting().SetRates(Direction::kIn, {.drop = 1});
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  for (int i = 0; i < 10; ++i) {
    dialler->Say("up");
    acceptor->Say("down");
  }
  ASSERT_TRUE(Eventually(
      [&] { return dialler->received_count() == 10 && accepting().counts().dropped == 10; }));
  EXPECT_EQ(acceptor->received_count(), 0u);
  accepting().SetRates(Direction::kIn, {});
  dialler->Say("up");
  EXPECT_TRUE(Eventually([&] { return acceptor->received_count() == 1; }));
}

TEST_P(FaultySuite, EveryMessageIsAccountedFor) {
  dialling().SetRates(Direction::kOut, {.drop = 0.1, .duplicate = 0.1, .reorder = 0.1});
  accepting().SetRates(Direction::kIn, {.drop = 0.1, .duplicate = 0.1, .reorder = 0.1});
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  constexpr size_t kMessages = 1000;
  for (size_t i = 0; i < kMessages; ++i) dialler->Say(absl::StrCat(i));
  // The last one that passes may be held back on either side.
  const auto expected = [&] {
    const FaultCounts out = dialling().counts(), in = accepting().counts();
    return kMessages - out.dropped + out.duplicated - in.dropped + in.duplicated;
  };
  ASSERT_TRUE(Eventually([&] {
    return dialling().counts().passed + 1 >=
               kMessages - dialling().counts().dropped + dialling().counts().duplicated &&
           acceptor->received_count() + 2 >= expected();
  }));
  EXPECT_LE(acceptor->received_count(), expected());
  for (const FaultCounts& counts : {dialling().counts(), accepting().counts()}) {
    EXPECT_GT(counts.dropped, 50u);
    EXPECT_GT(counts.duplicated, 50u);
    EXPECT_GT(counts.reordered, 30u);
    EXPECT_EQ(counts.cut, 0u);
  }
}

}  // namespace gradwire::rpc::testing
