// Behaviours of every transport: what arrives, how it is pulled, what gathers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/rpc/transport/transport_suite.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Pattern(size_t bytes, int seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 31 + seed) % 26);
  return text;
}

TEST_P(TransportSuite, MessagesArriveInOrderBothWays) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  std::vector<std::string> up, down;
  for (int i = 0; i < 200; ++i) {
    up.push_back(absl::StrCat("up ", i));
    down.push_back(absl::StrCat("down ", i));
    dialler->Say(up.back());
    acceptor->Say(down.back());
  }
  ASSERT_TRUE(Eventually([&] {
    return acceptor->received_count() == up.size() && dialler->received_count() == down.size();
  }));
  EXPECT_EQ(acceptor->received(), up);
  EXPECT_EQ(dialler->received(), down);
}

TEST_P(TransportSuite, BothLanesCarryMessages) {
  std::vector<Lane> lanes;
  ListenWith([&](std::shared_ptr<Connection> connection, Lane lane) {
    auto talker = NewTalker();
    talker->Say(std::string(LaneName(lane)));
    talker->SetConnection(connection);
    connection->WantWrite();  // before the handler is known
    return talker;
  });
  auto control = Dial(Lane::kControl);
  auto bulk = Dial(Lane::kBulk);
  ASSERT_TRUE(
      Eventually([&] { return control->received_count() == 1 && bulk->received_count() == 1; }));
  EXPECT_THAT(control->received(), ElementsAre("control"));
  EXPECT_THAT(bulk->received(), ElementsAre("bulk"));
}

TEST_P(TransportSuite, AnEmptyMessageIsAMessage) {
  Listen();
  auto dialler = Dial();
  dialler->Say("");
  dialler->Say("after");
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 2; }));
  EXPECT_THAT(acceptor->received(), ElementsAre("", "after"));
}

TEST_P(TransportSuite, LargeMessagesOfManyPiecesArriveUnaltered) {
  Listen();
  auto dialler = Dial(Lane::kBulk);
  std::string all;
  BufferList message;
  for (size_t bytes : {1u, 23u, 24u, 1024u, 1025u, 0u, 65536u, 1u << 20, 900'001u}) {
    const std::string piece = Pattern(bytes, static_cast<int>(bytes));
    all += piece;
    message.Append(Buffer::FromString(piece));
  }
  dialler->Say(std::move(message));
  dialler->Say(Pattern(2u << 20, 7));
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 2; }));
  EXPECT_TRUE(acceptor->received()[0] == all);
  EXPECT_TRUE(acceptor->received()[1] == Pattern(2u << 20, 7));
}

TEST_P(TransportSuite, TheLargestMessageArrives) {
  Listen();
  auto dialler = Dial(Lane::kBulk);
  dialler->Say(Pattern(kMaxMessageBytes, 1));
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 1; }));
  EXPECT_TRUE(acceptor->received()[0] == Pattern(kMaxMessageBytes, 1));
}

TEST_P(TransportSuite, AMessageAboveTheLimitEndsTheConnection) {
  Listen();
  auto dialler = Dial(Lane::kBulk);
  dialler->Say(Pattern(kMaxMessageBytes + 1, 1));
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kResourceExhausted,
                                       HasSubstr(absl::StrCat(kMaxMessageBytes))));
  EXPECT_THAT(acceptor->why(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(acceptor->received_count(), 0u);
}

TEST_P(TransportSuite, WhatGathersDuringAWriteLeavesAsOneMessage) {
  Listen();
  auto dialler = Dial(Lane::kControl, [](Talker& talker) {
    talker.coalesce = true;
    talker.on_next = [&talker](int call) {
      if (call != 2) return;
      // The first message is being written, or was: whatever comes now goes together.
      for (int i = 0; i < 100; ++i) talker.Say(absl::StrCat(i));
    };
  });
  dialler->Say("first");
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() >= 2; }));
  ASSERT_EQ(acceptor->received_count(), 2u);
  const std::vector<std::string> parts = absl::StrSplit(acceptor->received()[1], '|');
  EXPECT_EQ(parts.size(), 100u);
  // One for each message, and one or two that found nothing.
  ASSERT_TRUE(Eventually([&] { return dialler->next_calls() >= 3; }));
  EXPECT_LE(dialler->next_calls(), 4);
}

TEST_P(TransportSuite, OneWantWriteIsEnoughForAllThatWaits) {
  Listen();
  auto dialler = Dial();
  for (int i = 0; i < 50; ++i) {
    BufferList message;
    message.Append(Buffer::FromString(absl::StrCat(i)));
    dialler->Queue(std::move(message));
  }
  dialler->connection()->WantWrite();
  auto acceptor = Accepted();
  EXPECT_TRUE(Eventually([&] { return acceptor->received_count() == 50; }));
}

TEST_P(TransportSuite, NothingIsPulledWithoutWantWrite) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  dialler->Say("a");
  ASSERT_TRUE(Eventually([&] {  // the second call found nothing
    return dialler->next_calls() == 2 && acceptor->received_count() == 1;
  }));
  // Time passes: the other direction makes round trips.
  acceptor->Say("b");
  ASSERT_TRUE(Eventually([&] { return dialler->received_count() == 1; }));
  acceptor->Say("c");
  ASSERT_TRUE(Eventually([&] { return dialler->received_count() == 2; }));
  EXPECT_EQ(dialler->next_calls(), 2);
  EXPECT_EQ(acceptor->received_count(), 1u);
}

TEST_P(TransportSuite, EveryCallbackMayCallBack) {
  Listen([](Talker& talker) {
    talker.on_message = [&talker](const std::string& text) { talker.Say(text); };
    talker.on_next = [&talker](int) {
      if (auto connection = talker.connection()) (void)connection->peer_address();
    };
  });
  auto dialler = Dial(Lane::kControl, [](Talker& talker) {
    talker.on_message = [&talker](const std::string& text) {
      if (text.size() < 300) talker.Say(text + "x");
    };
    talker.on_closed = [&talker] {
      auto connection = talker.connection();
      connection->WantWrite();
      connection->Close(absl::InternalError("again"));
      connection->CloseAfterWrites(absl::InternalError("again"), absl::Seconds(1));
    };
  });
  dialler->Say("x");
  ASSERT_TRUE(Eventually([&] { return dialler->received_count() == 300; }));
  dialler->connection()->Close(absl::CancelledError("enough"));
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kCancelled, "enough"));
}

TEST_P(TransportSuite, SixtyFourConnectionsAtOnce) {
  Listen([](Talker& talker) {
    talker.on_message = [&talker](const std::string& text) { talker.Say("re " + text); };
  });
  std::vector<std::shared_ptr<Talker>> diallers;
  for (int i = 0; i < 64; ++i) {
    diallers.push_back(Dial(i % 2 == 0 ? Lane::kControl : Lane::kBulk));
    diallers.back()->Say(absl::StrCat(i));
  }
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(Eventually([&] { return diallers[i]->received_count() == 1; })) << i;
    EXPECT_THAT(diallers[i]->received(), ElementsAre(absl::StrCat("re ", i)));
  }
  EXPECT_EQ(accepted_count(), 64u);
}

TEST_P(TransportSuite, PeersHaveAddresses) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  ASSERT_NE(dialler->connection(), nullptr);
  ASSERT_NE(acceptor->connection(), nullptr);
  EXPECT_EQ(dialler->connection()->peer_address(), listener_->address());
  EXPECT_NE(acceptor->connection()->peer_address(), "");
}

}  // namespace
}  // namespace gradwire::rpc::testing
