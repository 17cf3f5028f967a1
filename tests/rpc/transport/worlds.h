// The worlds that transports are tested in, without gRPC.
#pragma once

#include <memory>
#include <string>

#include "rpc/base/sim.h"
#include "rpc/transport/faulty/faulty_transport.h"
#include "rpc/transport/inproc/inproc_transport.h"
#include "rpc/transport/sim/sim_network.h"
#include "tests/rpc/transport/transport_suite.h"
#include "tests/support/wait.h"

namespace gradwire::rpc::testing {

class InprocWorld final : public World {
 public:
  Transport& dialler() override { return *dialler_; }
  Transport& acceptor() override { return *acceptor_; }
  std::string listen_address() override { return "inproc:"; }
  std::string nowhere() override { return "inproc:nobody"; }
  std::string malformed() override { return "127.0.0.1:80"; }
  bool RunUntil(const std::function<bool()>& done) override {
    return ::gradwire::testing::WaitUntil(done, absl::Seconds(30));
  }
  bool lanes_are_apart() const override { return false; }
  bool DestroyDialler() override {
    dialler_ = nullptr;
    return true;
  }
  bool DestroyAcceptor() override {
    acceptor_ = nullptr;
    return true;
  }

 private:
  const std::shared_ptr<InprocHub> hub_ = std::make_shared<InprocHub>();
  std::unique_ptr<Transport> dialler_ = MakeInprocTransport(hub_);
  std::unique_ptr<Transport> acceptor_ = MakeInprocTransport(hub_);
};

class SimWorld final : public World {
 public:
  Transport& dialler() override { return *a_->transport(); }
  Transport& acceptor() override { return *b_->transport(); }
  std::string listen_address() override { return b_->address(); }
  std::string nowhere() override { return "sim:nobody"; }
  std::string malformed() override { return "127.0.0.1:80"; }
  bool RunUntil(const std::function<bool()>& done) override {
    return loop_.RunUntil(done, loop_.Now() + absl::Seconds(60));
  }
  bool has_threads() const override { return false; }
  bool DestroyDialler() override { return false; }
  bool DestroyAcceptor() override { return false; }
  SimNetwork& network() { return network_; }

 private:
  SimLoop loop_;
  SimNetwork network_{&loop_, 1};
  SimProcess* const a_ = network_.AddProcess("a");
  SimProcess* const b_ = network_.AddProcess("b");
};

// Another world behind the faulty wrapper, on both sides.
class FaultyWorld final : public World {
 public:
  explicit FaultyWorld(std::unique_ptr<World> base)
      : base_(std::move(base)),
        dialler_(std::make_unique<FaultyTransport>(&base_->dialler(), 1)),
        acceptor_(std::make_unique<FaultyTransport>(&base_->acceptor(), 2)) {}
  Transport& dialler() override { return *dialler_; }
  Transport& acceptor() override { return *acceptor_; }
  FaultyTransport& faulty_dialler() { return *dialler_; }
  FaultyTransport& faulty_acceptor() { return *acceptor_; }
  World& base() { return *base_; }
  std::string listen_address() override { return base_->listen_address(); }
  std::string nowhere() override { return base_->nowhere(); }
  std::string malformed() override { return base_->malformed(); }
  bool RunUntil(const std::function<bool()>& done) override { return base_->RunUntil(done); }
  bool has_threads() const override { return base_->has_threads(); }
  bool lanes_are_apart() const override { return base_->lanes_are_apart(); }
  bool DestroyDialler() override {
    dialler_ = nullptr;
    return base_->DestroyDialler();
  }
  bool DestroyAcceptor() override {
    acceptor_ = nullptr;
    return base_->DestroyAcceptor();
  }

 private:
  const std::unique_ptr<World> base_;
  std::unique_ptr<FaultyTransport> dialler_;
  std::unique_ptr<FaultyTransport> acceptor_;
};

}  // namespace gradwire::rpc::testing
