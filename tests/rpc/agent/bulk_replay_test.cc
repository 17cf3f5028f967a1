// A stranger who heard the hello of a bulk lane can't open one with it.
#include <gtest/gtest.h>

#include <atomic>

#include <memory>
#include <string>
#include <utility>

#include "rpc/transport/inproc/inproc_transport.h"
#include "tests/rpc/agent/real_agent.h"
#include "tests/rpc/agent/sim_cluster.h"
#include "tests/support/matchers.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {
namespace {

using ::gradwire::testing::IsOk;
using ::gradwire::testing::IsOkAndHolds;
using ::gradwire::testing::WaitUntil;

// Keeps the first message that a dialled bulk lane sends.
class Tap final : public Transport {
 public:
  explicit Tap(Transport* base) : base_(base) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override {
    return base_->Listen(address, std::move(accept));
  }
  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override {
    if (lane == Lane::kBulk) handler = std::make_shared<Heard>(this, std::move(handler));
    return base_->Dial(address, lane, std::move(handler), timeout);
  }

  std::string first() {
    MutexLock lock(mu_);
    return first_;
  }

 private:
  class Heard final : public ConnectionHandler {
   public:
    Heard(Tap* tap, std::shared_ptr<ConnectionHandler> handler)
        : tap_(tap), handler_(std::move(handler)) {}
    bool NextMessage(BufferList& out) override {
      if (!handler_->NextMessage(out)) return false;
      MutexLock lock(tap_->mu_);
      if (tap_->first_.empty()) tap_->first_ = std::string(AsText(out.Flatten().bytes()));
      return true;
    }
    void OnMessage(BufferList message) override { handler_->OnMessage(std::move(message)); }
    void OnClosed(absl::Status why) override { handler_->OnClosed(std::move(why)); }

   private:
    Tap* const tap_;
    const std::shared_ptr<ConnectionHandler> handler_;
  };

  Transport* const base_;
  Mutex mu_;
  std::string first_ GW_GUARDED_BY(mu_);
};

// Says one message and hears how that ends.
class Stranger final : public ConnectionHandler {
 public:
  explicit Stranger(std::string word) : word_(std::move(word)) {}
  bool NextMessage(BufferList& out) override {
    if (std::exchange(said_, true)) return false;
    out.Append(Buffer::FromString(word_));
    return true;
  }
  void OnMessage(BufferList) override {}
  void OnClosed(absl::Status) override { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  const std::string word_;
  bool said_ = false;
  std::atomic<bool> closed_{false};
};

TEST(BulkHello, ARecordedOneIsRefused) {
  const auto hub = std::make_shared<InprocHub>();
  const auto base_a = MakeInprocTransport(hub), base_b = MakeInprocTransport(hub),
             base_c = MakeInprocTransport(hub);
  Tap tap(base_a.get());
  const std::string token(32, 't');
  RealAgent b("b", {TextFunction("echo", [](CallInfo&, std::string text) { return text; })}, {},
              token, base_b.get());
  const std::string address = b.Listen("inproc:b");
  RealAgent a("a", {}, {}, token, &tap);
  ASSERT_THAT(a.node().AddPeer("b", address), IsOk());
  const std::string large(200'000, 'x');
  ASSERT_THAT(a.Call("b", "echo", large), IsOkAndHolds(large));
  ASSERT_FALSE(tap.first().empty());

  const uint64_t refused = b.node().stats().hellos_refused;
  auto stranger = std::make_shared<Stranger>(tap.first());
  auto connection = base_c->Dial(address, Lane::kBulk, stranger, absl::Seconds(10));
  connection->WantWrite();
  EXPECT_TRUE(WaitUntil([&] { return stranger->closed(); }));
  EXPECT_EQ(b.node().stats().hellos_refused, refused + 1);
  EXPECT_THAT(a.Call("b", "echo", large), IsOkAndHolds(large));
}

}  // namespace
}  // namespace gradwire::rpc::testing
