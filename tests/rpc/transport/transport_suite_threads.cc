// Behaviours of every transport that has threads of its own.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/rpc/transport/transport_suite.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::StatusIs;

const absl::Status kEnough = absl::CancelledError("enough");

#define NEEDS_THREADS() \
  if (!world_->has_threads()) GTEST_SKIP() << "everything runs on the test's thread here"

// Blocks whoever calls Wait until Open.
class Latch {
 public:
  void Open() {
    MutexLock lock(mu_);
    open_ = true;
    opened_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mu_);
    while (!open_) opened_.Wait(mu_);
  }

 private:
  Mutex mu_;
  CondVar opened_;
  bool open_ GW_GUARDED_BY(mu_) = false;
};

TEST_P(TransportSuite, WantWriteFromManyThreads) {
  NEEDS_THREADS();
  Listen();
  auto dialler = Dial(Lane::kControl, [](Talker& talker) { talker.coalesce = true; });
  auto acceptor = Accepted();
  constexpr int kThreads = 8, kEach = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) dialler->Say(absl::StrCat(t * kEach + i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> seen(kThreads * kEach, 0);
  size_t read = 0, total = 0;
  ASSERT_TRUE(Eventually([&] {
    const std::vector<std::string> messages = acceptor->received();
    for (; read < messages.size(); ++read) {
      for (const auto part : absl::StrSplit(messages[read], '|')) {
        int n = -1;
        if (absl::SimpleAtoi(part, &n) && n >= 0 && n < kThreads * kEach) ++seen[n];
        ++total;
      }
    }
    return total >= seen.size();
  }));
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST_P(TransportSuite, TrafficBothWaysWhileManyThreadsClose) {
  NEEDS_THREADS();
  Listen([](Talker& talker) {
    talker.on_message = [&talker](const std::string& text) { talker.Say(text); };
  });
  for (int round = 0; round < 10; ++round) {
    auto dialler = Dial(round % 2 == 0 ? Lane::kControl : Lane::kBulk);
    auto acceptor = Accepted(round);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (!stop) dialler->Say(std::string(2000, 'x'));
      });
    }
    EXPECT_TRUE(Eventually([&] { return dialler->received_count() >= 10; }));
    auto connection = (round % 3 == 0 ? acceptor : dialler)->connection();
    for (int t = 0; t < 2; ++t) threads.emplace_back([&] { connection->Close(kEnough); });
    EXPECT_TRUE(Eventually([&] { return dialler->closed() && acceptor->closed(); }));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(dialler->closed_count(), 1);
    EXPECT_EQ(acceptor->closed_count(), 1);
  }
}

TEST_P(TransportSuite, DestroyingTheTransportEndsItsTraffic) {
  for (const bool dialling_side : {true, false}) {
    world_ = GetParam().make();
    Listen([](Talker& talker) {
      talker.on_message = [&talker](const std::string& text) { talker.Say(text); };
    });
    std::vector<std::shared_ptr<Talker>> diallers;
    std::vector<std::shared_ptr<Connection>> connections;  // outlive the transport
    const size_t before = accepted_count();
    for (int i = 0; i < 8; ++i) {
      diallers.push_back(Dial(i % 2 == 0 ? Lane::kControl : Lane::kBulk, [](Talker& talker) {
        talker.on_message = [&talker](const std::string& text) { talker.Say(text); };
      }));
      connections.push_back(diallers.back()->connection());
      diallers.back()->Say(std::string(5000, 'x'));
    }
    for (const auto& dialler : diallers) {
      ASSERT_TRUE(Eventually([&] { return dialler->received_count() >= 3; }));
    }
    if (dialling_side) {
      if (!world_->DestroyDialler()) GTEST_SKIP() << "the transport lives as long as the world";
      for (const auto& dialler : diallers) {
        EXPECT_TRUE(dialler->closed()) << "the destructor has waited for OnClosed";
        EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kCancelled));
      }
    } else {
      connections.push_back(Accepted(before)->connection());
      listener_ = nullptr;
      ASSERT_TRUE(world_->DestroyAcceptor());
      for (size_t i = before; i < accepted_count(); ++i) EXPECT_TRUE(Accepted(i)->closed());
      for (const auto& dialler : diallers) {
        ASSERT_TRUE(Eventually([&] { return dialler->closed(); }));
        EXPECT_THAT(dialler->why(), StatusIs(absl::StatusCode::kUnavailable));
      }
    }
    for (size_t i = before; i < accepted_count(); ++i) {
      EXPECT_TRUE(Eventually([&] { return Accepted(i)->closed(); }));
    }
    for (const auto& connection : connections) {
      if (connection == nullptr) continue;
      connection->WantWrite();
      connection->Close(kEnough);
    }
    listener_ = nullptr;
  }
}

TEST_P(TransportSuite, DestroyingTheTransportEndsFailedDials) {
  auto malformed = DialTo(world_->malformed());
  auto nowhere = DialTo(world_->nowhere());
  if (!world_->DestroyDialler()) GTEST_SKIP() << "the transport lives as long as the world";
  EXPECT_TRUE(malformed->closed());
  EXPECT_TRUE(nowhere->closed());
}

TEST_P(TransportSuite, ASlowReaderHoldsItsWriterUp) {
  NEEDS_THREADS();
  const auto latch = std::make_shared<Latch>();
  Listen(
      [&](Talker& talker) { talker.on_message = [latch](const std::string&) { latch->Wait(); }; });
  auto dialler = Dial(Lane::kBulk);
  auto acceptor = Accepted();
  constexpr int kMessages = 400;  // of 1 MiB: more than any buffer on the way holds
  const auto chunk = std::make_shared<std::string>(1u << 20, 'x');
  for (int i = 0; i < kMessages; ++i) {
    BufferList message;
    message.Append(Buffer(AsBytes(*chunk), chunk));
    dialler->Queue(std::move(message));
  }
  dialler->connection()->WantWrite();
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 1; }));
  // Until nothing moves any more.
  int calls = 0, quiet = 0;
  EXPECT_TRUE(Eventually([&] {
    std::this_thread::yield();
    const int now = dialler->next_calls();
    quiet = now == calls ? quiet + 1 : 0;
    calls = now;
    return quiet > 20'000;
  }));
  EXPECT_LT(dialler->next_calls(), kMessages / 2);
  latch->Open();
  EXPECT_TRUE(Eventually([&] { return acceptor->received_count() == kMessages; }));
}

TEST_P(TransportSuite, TheControlLaneRunsWhileABulkReaderBlocks) {
  NEEDS_THREADS();
  if (!world_->lanes_are_apart()) GTEST_SKIP() << "one polling thread serves both lanes here";
  const auto latch = std::make_shared<Latch>();
  ListenWith([&](std::shared_ptr<Connection> connection, Lane lane) {
    auto talker = NewTalker();
    talker->on_message = [latch, lane, talker = talker.get()](const std::string& text) {
      if (lane == Lane::kBulk) latch->Wait();
      talker->Say(text);
    };
    talker->SetConnection(std::move(connection));
    return talker;
  });
  auto bulk = Dial(Lane::kBulk);
  bulk->Say("x");
  auto control = Dial(Lane::kControl);
  for (int i = 0; i < 20; ++i) control->Say("x");
  EXPECT_TRUE(Eventually([&] { return control->received_count() == 20; }));
  EXPECT_EQ(bulk->received_count(), 0u);
  latch->Open();
  EXPECT_TRUE(Eventually([&] { return bulk->received_count() == 1; }));
}

TEST_P(TransportSuite, LingeringEndsWhenThePeerDoesNotRead) {
  NEEDS_THREADS();
  const auto latch = std::make_shared<Latch>();
  Listen(
      [&](Talker& talker) { talker.on_message = [latch](const std::string&) { latch->Wait(); }; });
  auto dialler = Dial();
  auto acceptor = Accepted();
  for (int i = 0; i < 200; ++i) dialler->Say(std::string(1u << 20, 'x'));
  ASSERT_TRUE(Eventually([&] { return acceptor->received_count() == 1; }));
  dialler->connection()->CloseAfterWrites(kEnough, absl::Milliseconds(100));
  EXPECT_TRUE(Eventually([&] { return dialler->closed(); }));
  EXPECT_THAT(dialler->why(), StatusIs(kEnough.code(), "enough"));
  latch->Open();
  EXPECT_TRUE(Eventually([&] { return acceptor->closed(); }));
}

}  // namespace
}  // namespace gradwire::rpc::testing
