// The faulty wrapper over the transports without sockets, and that its seed decides.
#include "tests/rpc/transport/faulty_cases.h"

namespace gradwire::rpc::testing {
namespace {

using ::testing::ElementsAre;

INSTANTIATE_TEST_SUITE_P(
    Socketless, FaultySuite,
    ::testing::Values(
        WorldCase{"Inproc",
                  [] { return std::make_unique<FaultyWorld>(std::make_unique<InprocWorld>()); }},
        WorldCase{"Sim",
                  [] { return std::make_unique<FaultyWorld>(std::make_unique<SimWorld>()); }}),
    WorldCaseName);

// What arrives of 0..99 over the simulation with these faults on the way out.
std::vector<std::string> Arrived(uint64_t seed, FaultRates rates, FaultCounts* counts) {
  SimLoop loop;
  SimNetwork network(&loop, 1);
  SimProcess* a = network.AddProcess("a");
  SimProcess* b = network.AddProcess("b");
  FaultyTransport faulty(a->transport(), seed);
  faulty.SetRates(Direction::kOut, rates);
  auto acceptor = std::make_shared<Talker>();
  auto listener = b->transport()->Listen(
      b->address(), [&](std::shared_ptr<Connection>, Lane) { return acceptor; });
  auto dialler = std::make_shared<Talker>();
  dialler->SetConnection(faulty.Dial(b->address(), Lane::kControl, dialler, absl::Seconds(1)));
  for (int i = 0; i < 100; ++i) dialler->Say(absl::StrCat(i));
  loop.RunFor(absl::Seconds(1));
  *counts = faulty.counts();
  dialler->connection()->Close(absl::CancelledError("over"));
  loop.RunFor(absl::Seconds(1));
  return acceptor->received();
}

TEST(FaultyTransport, ASeedDecidesEverything) {
  const FaultRates rates = {.drop = 0.1, .duplicate = 0.1, .reorder = 0.1};
  FaultCounts first, again, other;
  const auto arrived = Arrived(7, rates, &first);
  EXPECT_EQ(Arrived(7, rates, &again), arrived);
  EXPECT_EQ(again.dropped, first.dropped);
  EXPECT_NE(Arrived(8, rates, &other), arrived);
}

TEST(FaultyTransport, AHeldMessageFollowsTheNextOne) {
  FaultCounts counts;
  // Every message that may be held is held: 1 overtakes 0, 3 overtakes 2, …
  const auto arrived = Arrived(1, {.reorder = 1}, &counts);
  ASSERT_EQ(arrived.size(), 100u);
  EXPECT_THAT(std::vector<std::string>(arrived.begin(), arrived.begin() + 4),
              ElementsAre("1", "0", "3", "2"));
  EXPECT_EQ(counts.reordered, 50u);
}

TEST(FaultyTransport, TheLastWordPassesWhatHappens) {
  InprocWorld world;
  FaultyTransport faulty(&world.acceptor(), 1);
  faulty.SetRates(Direction::kOut, {.drop = 1});
  auto acceptor = std::make_shared<Talker>();
  // The second question comes after the first message was dropped. The last word is said while it
  // is asked, so that no other pull can take the word and lose it before the end has begun.
  acceptor->on_next = [&](int call) {
    if (call != 2) return;
    BufferList word;
    word.Append(Buffer::FromString("wrong token"));
    acceptor->Queue(std::move(word));
    acceptor->connection()->CloseAfterWrites(absl::CancelledError("enough"), absl::Seconds(10));
  };
  auto listener =
      faulty.Listen(world.listen_address(), [&](std::shared_ptr<Connection> connection, Lane) {
        acceptor->Say("lost");
        acceptor->SetConnection(connection);
        connection->WantWrite();
        return acceptor;
      });
  ASSERT_TRUE(listener.ok());
  auto dialler = std::make_shared<Talker>();
  dialler->SetConnection(
      world.dialler().Dial((*listener)->address(), Lane::kControl, dialler, absl::Seconds(10)));
  ASSERT_TRUE(world.RunUntil([&] { return dialler->closed() && acceptor->closed(); }));
  EXPECT_EQ(faulty.counts().dropped, 1u);
  EXPECT_THAT(dialler->received(), ElementsAre("wrong token"));
}

}  // namespace
}  // namespace gradwire::rpc::testing
