// Callers that wait do the polling thread's work (rpc/base/wait_driver.h), over real sockets.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/rpc/agent/real_agent.h"
#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::StatusIs;
using ::gradwire::testing::WaitUntil;

class Driving : public ::testing::TestWithParam<absl::Duration> {
 protected:
  Driving() {
    limits_.spin = GetParam();
    for (const rpc::Run run : {rpc::Run::kInline, rpc::Run::kExecutor}) {
      functions_.push_back(TextFunction(
          run == rpc::Run::kInline ? "echo.inline" : "echo",
          [](CallInfo&, std::string text) { return text; }, run));
    }
  }
  AgentLimits limits_;
  std::vector<BoundFunction> functions_;
};

INSTANTIATE_TEST_SUITE_P(Spin, Driving,
                         ::testing::Values(absl::ZeroDuration(), absl::Microseconds(50)));

// A function that keeps its replies.
class Never {
 public:
  BoundFunction Function() {
    BoundFunction function =
        TextFunction("never", [](CallInfo&, std::string text) { return text; });
    function.handler = [this](std::shared_ptr<CallInfo>, ReceivedPayload, ReplyFn reply) {
      MutexLock lock(mu_);
      kept_.push_back(std::move(reply));
    };
    return function;
  }
  size_t count() {
    MutexLock lock(mu_);
    return kept_.size();
  }
  bool WaitForCount(size_t count) {
    return WaitUntil([&] { return this->count() >= count; }, absl::Seconds(60));
  }
  void Drop() {
    std::vector<ReplyFn> dropped;
    MutexLock lock(mu_);
    dropped.swap(kept_);
    lock.Unlock();
  }

 private:
  Mutex mu_;
  std::vector<ReplyFn> kept_ GW_GUARDED_BY(mu_);
};

// One call after the other: the waiting thread itself gets the results.
TEST_P(Driving, TheResultArrivesOnTheThreadThatWaits) {
  RealAgent a("a", {}, limits_), b("b", functions_, limits_);
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  int here = 0;
  // The polling thread keeps the queue when this thread was away for long, so not every one.
  ASSERT_TRUE(WaitUntil(
      [&] {
        // Shared: where another thread completes it, Wait may return before OnReady has run.
        auto thread = std::make_shared<std::atomic<std::thread::id>>();
        Payload payload;
        payload.head = Buffer::FromString("x");
        Future<std::string> future = a.Async("b", "echo.inline", std::move(payload));
        future.OnReady([thread](const auto&) { *thread = std::this_thread::get_id(); });
        EXPECT_THAT(future.Wait(absl::Seconds(60)), IsOkAndHolds("x"));
        here += thread->load() == std::this_thread::get_id();
        return here >= 100;
      },
      absl::Seconds(60)));
}

// A reply that comes through another queue, a cancellation and a deadline all reach who drives.
TEST_P(Driving, WhatOtherThreadsBringEndsTheWait) {
  Never never;
  functions_.push_back(never.Function());
  RealAgent a("a", {}, limits_), b("b", functions_, limits_);
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  const std::string large(200'000, 'y');  // by the bulk lane
  for (int i = 0; i < 50; ++i) {
    ASSERT_THAT(a.Call("b", "echo.inline", "x"), IsOkAndHolds("x"));
    ASSERT_THAT(a.Call("b", "echo", large), IsOkAndHolds(large));
  }
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 3; ++k) ASSERT_THAT(a.Call("b", "echo.inline", "x"), IsOk());
    const size_t before = never.count();
    Future<std::string> future = a.Async("b", "never", Payload());
    std::thread canceller([&] {
      EXPECT_TRUE(never.WaitForCount(before + 1));
      future.Cancel();
    });
    EXPECT_THAT(future.Wait(absl::Seconds(60)), StatusIs(absl::StatusCode::kCancelled));
    canceller.join();
  }
  EXPECT_THAT(a.Call("b", "never", "", {.timeout = absl::Milliseconds(20)}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  // A wait that ends before its call does.
  const size_t before = never.count();
  Future<std::string> future = a.Async("b", "never", Payload());
  EXPECT_THAT(future.Wait(absl::Milliseconds(5)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(a.Call("b", "echo.inline", "on"), IsOkAndHolds("on"));
  ASSERT_TRUE(never.WaitForCount(before + 1));
  never.Drop();
  EXPECT_THAT(future.Wait(absl::Seconds(60)), StatusIs(absl::StatusCode::kInternal));
}

// Several wait at once: nobody starves, whoever drives.
TEST_P(Driving, ManyThreadsThatWait) {
  RealAgent a("a", {}, limits_), b("b", functions_, limits_);
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  std::atomic<int> well{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text = std::to_string(t * 1000 + i);
        const auto back = a.Call("b", i % 2 == 0 ? "echo" : "echo.inline", text);
        well += back.ok() && *back == text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, 2400);
}

// The peer's calls over the same connection are served while a thread drives, and never on it.
TEST_P(Driving, HandlersNeverRunOnTheThreadThatWaits) {
  std::atomic<std::thread::id> waiting{};
  std::atomic<int> served{0}, on_waiting{0};
  RealAgent a("a",
              {TextFunction(
                  "where",
                  [&](CallInfo&, std::string text) {
                    ++served;
                    on_waiting += std::this_thread::get_id() == waiting.load();
                    return text;
                  },
                  rpc::Run::kInline)},
              limits_);
  RealAgent* callee = nullptr;
  functions_.push_back(TextFunction("back", [&](CallInfo& info, std::string text) {
    return *callee->Call(info.caller(), "where", text);
  }));
  RealAgent b("b", functions_, limits_);
  callee = &b;
  ASSERT_THAT(a.node().AddPeer("b", b.Listen()), IsOk());
  waiting = std::this_thread::get_id();
  for (int i = 0; i < 200; ++i) ASSERT_THAT(a.Call("b", "back", "x"), IsOkAndHolds("x"));
  EXPECT_EQ(served, 200);
  EXPECT_EQ(on_waiting, 0);
}

// The agent ends while a thread waits for a call of it.
TEST_P(Driving, TheEndOfTheAgentEndsTheWait) {
  for (int i = 0; i < 5; ++i) {
    Never never;
    std::vector<BoundFunction> functions = functions_;
    functions.push_back(never.Function());
    auto a = std::make_unique<RealAgent>("a", std::vector<BoundFunction>(), limits_);
    RealAgent b("b", functions, limits_);
    ASSERT_THAT(a->node().AddPeer("b", b.Listen()), IsOk());
    for (int k = 0; k < 3; ++k) ASSERT_THAT(a->Call("b", "echo.inline", "x"), IsOk());
    Future<std::string> future = a->Async("b", "never", Payload());
    std::thread waiter([&] { EXPECT_FALSE(future.Wait(absl::Seconds(60)).ok()); });
    EXPECT_TRUE(never.WaitForCount(1));
    a = nullptr;
    waiter.join();
    never.Drop();
  }
}

}  // namespace
}  // namespace gradwire::rpc::testing
