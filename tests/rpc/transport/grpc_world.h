// gRPC over the loopback interface, for the suite.
#pragma once

#include <memory>
#include <string>

#include "rpc/transport/grpc/grpc_transport.h"
#include "tests/rpc/transport/worlds.h"

namespace gradwire::rpc::testing {

class GrpcWorld final : public World {
 public:
  explicit GrpcWorld(std::string host = "127.0.0.1", GrpcTransportOptions options = {})
      : host_(std::move(host)),
        dialler_(MakeGrpcTransport(options)),
        acceptor_(MakeGrpcTransport(options)) {}
  Transport& dialler() override { return *dialler_; }
  Transport& acceptor() override { return *acceptor_; }
  std::string listen_address() override { return host_ + ":0"; }
  std::string nowhere() override { return host_ + ":1"; }
  std::string malformed() override { return "no address"; }
  bool RunUntil(const std::function<bool()>& done) override {
    return ::gradwire::testing::WaitUntil(done, absl::Seconds(30));
  }
  bool DestroyDialler() override {
    dialler_ = nullptr;
    return true;
  }
  bool DestroyAcceptor() override {
    acceptor_ = nullptr;
    return true;
  }

 private:
  const std::string host_;
  std::unique_ptr<Transport> dialler_;
  std::unique_ptr<Transport> acceptor_;
};

}  // namespace gradwire::rpc::testing
