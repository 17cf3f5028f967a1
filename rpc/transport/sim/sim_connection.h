// One end of a simulated connection. Internal to rpc/transport/sim.
#pragma once

#include <memory>
#include <string>
#include <utility>

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
  // From now on the connection lives until OnClosed or Drop.
  void set_handler(std::shared_ptr<ConnectionHandler> handler) {
    self_ = shared_from_this();
    handler_ = std::move(handler);
  }
  // The connection stands: what was wanted before is asked for now.
  void Start();
  // Closes with `why` unless Start comes within `timeout`.
  void GiveUpAfter(absl::Duration timeout, const absl::Status& why);
  // This end learns that the connection is over, `after` from now.
  void EndAfter(absl::Duration after, const absl::Status& why);
  // Closes and reports it at once; for the end of a listener.
  void CloseNow(const absl::Status& why);
  void GoSilent() { silent_ = true; }
  void MarkAccepted() { accepted_ = true; }
  bool accepted() const { return accepted_; }
  // Forgets the handler without a call (its process is dead).
  void Drop() {
    open_ = false;
    handler_ = nullptr;
    const auto self = std::move(self_);
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

  const SimFaults& faults() const;

  SimNetwork* const network_;
  SimProcess* const here_;
  SimProcess* const there_;
  const Lane lane_;
  std::weak_ptr<SimConnection> other_;
  std::shared_ptr<SimConnection> self_;
  std::shared_ptr<ConnectionHandler> handler_;
  bool open_ = true;
  bool started_ = false;
  bool accepted_ = false;  // by a listener
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
