// What stands between a handler and its real connection. Internal to rpc/transport/faulty.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "rpc/base/mutex.h"
#include "rpc/base/rng.h"
#include "rpc/transport/faulty/faulty_transport.h"

namespace gradwire::rpc {

// Shared by the connections of one FaultyTransport.
struct FaultyState {
  explicit FaultyState(uint64_t seed_in) : seed(seed_in) {}

  struct CutPlan {
    std::optional<uint64_t> messages_left;
    std::optional<uint64_t> bytes_left;
  };
  enum class Fate { kPass, kDrop, kDuplicate, kHold };

  // What happens to the next message. `may_hold`: nothing is held back yet.
  Fate Decide(Direction direction, Rng& rng, bool may_hold);
  // Counts a message; whether the connection is cut, before or right after it.
  enum class Cut { kNo, kBefore, kAfter };
  Cut Passed(Direction direction, Lane lane, uint64_t size_bytes);
  void Overtaken();

  const uint64_t seed;
  mutable Mutex mu;
  uint64_t connection_count GW_GUARDED_BY(mu) = 0;
  FaultRates rates[2] GW_GUARDED_BY(mu);
  CutPlan cuts[2][2] GW_GUARDED_BY(mu);  // by direction, lane
  FaultCounts counts GW_GUARDED_BY(mu);
};

// The connection that the handler sees, and the handler that the real connection sees: two faces of
// one shared link.
class FaultyLink final : public ConnectionHandler, public std::enable_shared_from_this<FaultyLink> {
 public:
  FaultyLink(std::shared_ptr<FaultyState> state, Lane lane);

  // Set once each, in either order; the real connection may call in before.
  void SetBase(std::shared_ptr<Connection> base);
  void SetHandler(std::shared_ptr<ConnectionHandler> handler);

  bool NextMessage(BufferList& out) override;
  void OnMessage(BufferList message) override;
  void OnClosed(absl::Status why) override;

  void WantWrite();
  void Close(absl::Status why);
  void CloseAfterWrites(absl::Status why, absl::Duration linger);
  std::shared_ptr<WaitDriver> wait_driver();

 private:
  std::shared_ptr<ConnectionHandler> handler();
  // Gives one message to the handler; false once the connection is being cut.
  bool DeliverIn(const std::shared_ptr<ConnectionHandler>& to, BufferList message);
  void CutNow();

  const std::shared_ptr<FaultyState> state_;
  const Lane lane_;
  // Of the caller of NextMessage and OnMessage; the contract has one at a time.
  SeededRng out_rng_;
  SeededRng in_rng_;
  std::deque<BufferList> out_next_;  // a second copy, or what was overtaken
  std::optional<BufferList> out_held_;
  std::optional<BufferList> in_held_;

  Mutex mu_;
  std::shared_ptr<Connection> base_ GW_GUARDED_BY(mu_);
  std::shared_ptr<ConnectionHandler> handler_ GW_GUARDED_BY(mu_);
  bool over_ GW_GUARDED_BY(mu_) = false;  // cut, or closed on this side
  bool closing_ GW_GUARDED_BY(mu_) = false;
};

class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::shared_ptr<FaultyLink> link, std::string peer_address)
      : link_(std::move(link)), peer_address_(std::move(peer_address)) {}
  void WantWrite() override { link_->WantWrite(); }
  void Close(absl::Status why) override { link_->Close(std::move(why)); }
  void CloseAfterWrites(absl::Status why, absl::Duration linger) override {
    link_->CloseAfterWrites(std::move(why), linger);
  }
  std::string peer_address() const override { return peer_address_; }
  std::shared_ptr<WaitDriver> wait_driver() override { return link_->wait_driver(); }

 private:
  const std::shared_ptr<FaultyLink> link_;
  const std::string peer_address_;
};

}  // namespace gradwire::rpc
