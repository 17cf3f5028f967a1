// One end of a simulated connection. Internal to rpc/transport/sim.
#pragma once

#include <memory>
#include <string>

#include "rpc/transport/sim/sim_network.h"

namespace gradwire::rpc {

class SimConnection final : public Connection, public std::enable_shared_from_this<SimConnection> {
 public:
  SimConnection(SimNetwork* network, SimProcess* here, SimProcess* there, Lane lane)
      : network_(network), here_(here), there_(there), lane_(lane) {}

  void WantWrite() override;
  void Close(absl::Status why) override;
  void CloseAfterWrites(absl::Status why, absl::Duration linger) override;
  std::string peer_address() const override { return there_->address(); }

  static void Join(const std::shared_ptr<SimConnection>& a,
                   const std::shared_ptr<SimConnection>& b);
  void set_handler(std::shared_ptr<ConnectionHandler> handler) { handler_ = std::move(handler); }
  // This end learns that the connection is over, `after` from now.
  void EndAfter(absl::Duration after, const absl::Status& why);
  void GoSilent() { silent_ = true; }
  // Forgets the handler without a call (its process is dead).
  void Drop() {
    open_ = false;
    handler_ = nullptr;
  }
  bool open() const { return open_; }
  SimProcess* here() const { return here_; }
  SimProcess* there() const { return there_; }
  Lane lane() const { return lane_; }

 private:
  void Write();
  void Send(BufferList message);
  void Deliver(BufferList message);
  void End(const absl::Status& why);

  SimNetwork* const network_;
  SimProcess* const here_;
  SimProcess* const there_;
  const Lane lane_;
  std::weak_ptr<SimConnection> other_;
  std::shared_ptr<ConnectionHandler> handler_;
  bool open_ = true;
  bool silent_ = false;
  bool closed_here_ = false;  // Close was called; OnClosed is on its way
  bool writing_ = false;
  bool wanted_ = false;
  bool closing_ = false;
  bool last_word_taken_ = false;
  absl::Status closing_why_;
  absl::Time next_arrival_ = absl::InfinitePast();  // of what this end sends, in order
};

}  // namespace gradwire::rpc
