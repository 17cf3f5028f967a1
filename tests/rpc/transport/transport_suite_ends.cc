// Behaviours of every transport: how connections begin and end.
#include <memory>
#include <string>
#include <utility>

#include "tests/rpc/transport/transport_suite.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Status kEnough = absl::CancelledError("enough");

TEST_P(TransportSuite, CloseGivesItsStatusHereAndACutThere) {
  for (const bool by_dialler : {true, false}) {
    Listen();
    auto dialler = Dial();
    auto acceptor = Accepted(by_dialler ? 0 : 1);
    (by_dialler ? dialler : acceptor)->connection()->Close(kEnough);
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    EXPECT_THAT((by_dialler ? dialler : acceptor)->why(), StatusIs(kEnough.code(), "enough"));
    EXPECT_THAT((by_dialler ? acceptor : dialler)->why(), StatusIs(absl::StatusCode::kUnavailable));
    listener_ = nullptr;
  }
}

TEST_P(TransportSuite, TheFirstCloseDecides) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  auto connection = dialler->connection();
  connection->Close(kEnough);
  connection->Close(absl::InternalError("second"));
  connection->CloseAfterWrites(absl::InternalError("third"), absl::Seconds(1));
  ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(kEnough.code(), "enough"));
  // Nothing happens any more, but nothing breaks either.
  connection->Close(kEnough);
  connection->WantWrite();
  EXPECT_NE(connection->peer_address(), "");
}

TEST_P(TransportSuite, CloseInsideOnMessage) {
  for (const bool by_dialler : {true, false}) {
    const auto closing = [](Talker& talker) {
      talker.on_message = [&talker](const std::string&) { talker.connection()->Close(kEnough); };
    };
    Listen(by_dialler ? std::function<void(Talker&)>() : closing);
    auto dialler = Dial(Lane::kControl, by_dialler ? closing : std::function<void(Talker&)>());
    auto acceptor = Accepted(by_dialler ? 0 : 1);
    auto speaker = by_dialler ? acceptor : dialler;
    for (int i = 0; i < 20; ++i) speaker->Say("x");
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    auto closer = by_dialler ? dialler : acceptor;
    EXPECT_THAT(closer->why(), StatusIs(kEnough.code(), "enough"));
    EXPECT_EQ(closer->received_count(), 1u) << "messages after Close";
    listener_ = nullptr;
  }
}

TEST_P(TransportSuite, CloseInsideNextMessage) {
  for (const bool by_dialler : {true, false}) {
    const auto closing = [](Talker& talker) {
      talker.on_next = [&talker](int call) {
        if (call == 3) talker.connection()->Close(kEnough);
      };
    };
    Listen(by_dialler ? std::function<void(Talker&)>() : closing);
    auto dialler = Dial(Lane::kControl, by_dialler ? closing : std::function<void(Talker&)>());
    auto acceptor = Accepted(by_dialler ? 0 : 1);
    auto closer = by_dialler ? dialler : acceptor;
    for (int i = 0; i < 20; ++i) closer->Say("x");
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    EXPECT_THAT(closer->why(), StatusIs(kEnough.code(), "enough"));
    EXPECT_EQ(closer->next_calls(), 3);
    EXPECT_LE((by_dialler ? acceptor : dialler)->received_count(), 2u);
    listener_ = nullptr;
  }
}

TEST_P(TransportSuite, CloseInsideAccept) {
  ListenWith([&](std::shared_ptr<Connection> connection, Lane) {
    auto acceptor = NewTalker();
    acceptor->SetConnection(connection);
    connection->Close(kEnough);
    Remember(acceptor);
    return acceptor;
  });
  auto dialler = Dial();  // says nothing
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kUnavailable));
  auto acceptor = Accepted();
  ASSERT_TRUE(Eventually([&] { return acceptor->closed(); }));
  EXPECT_THAT(acceptor->why(), StatusIs(kEnough.code(), "enough"));
}

TEST_P(TransportSuite, LastWordInsideAccept) {
  ListenWith([&](std::shared_ptr<Connection> connection, Lane) {
    auto acceptor = NewTalker();
    acceptor->SetConnection(connection);
    acceptor->Say("wrong token");
    connection->CloseAfterWrites(kEnough, absl::Seconds(10));
    return acceptor;
  });
  auto dialler = Dial();
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->received(), ElementsAre("wrong token"));
}

TEST_P(TransportSuite, ARefusedDialEndsAtTheDialler) {
  ListenWith([&](std::shared_ptr<Connection>, Lane) { return nullptr; });
  auto dialler = Dial();  // says nothing
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(listener_->address())));
}

TEST_P(TransportSuite, ARefusedConnectionMayBeHeld) {
  Shared<std::shared_ptr<Connection>> shared;
  ListenWith([&](std::shared_ptr<Connection> connection, Lane) {
    shared.Set(std::move(connection));
    return nullptr;
  });
  auto dialler = Dial();
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(std::string(dialler->why().message()), HasSubstr("refused"));
  listener_ = nullptr;
  auto held = shared.Get();
  ASSERT_NE(held, nullptr);
  held->WantWrite();
  held->Close(kEnough);
  held->CloseAfterWrites(kEnough, absl::Seconds(1));
}

TEST_P(TransportSuite, DialToNowhereSaysWhere) {
  const std::string address = world_->nowhere();
  auto dialler = DialTo(address);
  dialler->Say("x");
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
  EXPECT_EQ(dialler->next_calls(), 0);
}

TEST_P(TransportSuite, DialToWhatIsNoAddressSaysSo) {
  for (const Lane lane : {Lane::kControl, Lane::kBulk}) {
    auto dialler = DialTo(world_->malformed(), lane);
    ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
    EXPECT_THAT(dialler->why().code(),
                AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnavailable));
    EXPECT_THAT(std::string(dialler->why().message()), HasSubstr(world_->malformed()));
  }
}

TEST_P(TransportSuite, ListenRefusesWhatIsNoAddressOrInUse) {
  const auto accept = [](std::shared_ptr<Connection>, Lane) { return nullptr; };
  EXPECT_THAT(world_->acceptor().Listen(world_->malformed(), accept),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(world_->malformed())));
  Listen();
  EXPECT_THAT(world_->acceptor().Listen(listener_->address(), accept),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(listener_->address())));
  // Free again once the listener has gone.
  const std::string address = listener_->address();
  listener_ = nullptr;
  auto again = world_->acceptor().Listen(address, accept);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->address(), address);
}

TEST_P(TransportSuite, CloseRightAfterDial) {
  Listen();
  auto dialler = Dial();
  dialler->connection()->Close(kEnough);
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(kEnough.code(), "enough"));
}

TEST_P(TransportSuite, CloseAfterWritesDeliversTheLastWord) {
  for (const bool by_dialler : {true, false}) {
    Listen();
    auto dialler = Dial();
    auto acceptor = Accepted(by_dialler ? 0 : 1);
    auto closer = by_dialler ? dialler : acceptor;
    auto listener = by_dialler ? acceptor : dialler;
    closer->Say("before");
    ASSERT_TRUE(Eventually([&] { return listener->received_count() == 1; }));
    BufferList word;
    word.Append(Buffer::FromString("wrong token"));
    closer->Queue(std::move(word));
    closer->connection()->CloseAfterWrites(kEnough, absl::Seconds(10));
    ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    EXPECT_THAT(listener->received(), ElementsAre("before", "wrong token"));
    EXPECT_THAT(closer->why(), StatusIs(kEnough.code(), "enough"));
    EXPECT_THAT(listener->why(), StatusIs(absl::StatusCode::kUnavailable));
    listener_ = nullptr;
  }
}

TEST_P(TransportSuite, CloseAfterWritesWithNothingToSay) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  acceptor->connection()->CloseAfterWrites(kEnough, absl::Seconds(10));
  ASSERT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
  EXPECT_THAT(acceptor->why(), StatusIs(kEnough.code(), "enough"));
  EXPECT_EQ(dialler->received_count(), 0u);
}

TEST_P(TransportSuite, TheHandlerIsReleasedAfterOnClosed) {
  Shared<std::weak_ptr<ConnectionHandler>> accepted;
  Shared<std::shared_ptr<Connection>> accepted_connection;
  std::weak_ptr<ConnectionHandler> dialled;
  std::shared_ptr<Connection> dialled_connection;
  ListenWith([&](std::shared_ptr<Connection> connection, Lane) {
    auto talker = std::make_shared<Talker>();
    accepted.Set(talker);
    accepted_connection.Set(connection);
    connection->WantWrite();
    talker->Queue({});
    talker->SetConnection(std::move(connection));  // a cycle until OnClosed
    return talker;
  });
  auto talker = std::make_shared<Talker>();
  dialled = talker;
  dialled_connection =
      world_->dialler().Dial(listener_->address(), Lane::kControl, talker, absl::Seconds(10));
  ASSERT_TRUE(Eventually([&] { return talker->received_count() == 1; }));
  talker = nullptr;
  dialled_connection->Close(kEnough);
  EXPECT_TRUE(Eventually([&] { return dialled.expired() && accepted.Get().expired(); }));
}

TEST_P(TransportSuite, ADestroyedListenerEndsItsConnections) {
  Listen();
  auto dialler = Dial();
  auto acceptor = Accepted();
  dialler->Say("x");
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 1; }));
  const std::string address = listener_->address();
  listener_ = nullptr;
  EXPECT_TRUE(acceptor->closed()) << "the destructor has waited for OnClosed";
  ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(acceptor->why(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kUnavailable));
  auto late = DialTo(address);
  ASSERT_TRUE(Eventually([&] { return late->closed(); }));
  EXPECT_THAT(late->why(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(address)));
}

TEST_P(TransportSuite, AListenerGoesWhileDialsComeIn) {
  Listen();
  std::vector<std::shared_ptr<Talker>> diallers;
  for (int i = 0; i < 16; ++i) diallers.push_back(Dial());
  listener_ = nullptr;
  for (const auto& dialler : diallers) EXPECT_TRUE(Eventually([&] { return dialler->closed(); }));
}

}  // namespace
}  // namespace gradwire::rpc::testing
