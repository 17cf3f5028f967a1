// The accepting side: a gRPC server, its two queues and their threads. Internal to
// rpc/transport/grpc.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "gradwire/v1/session.grpc.pb.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/connection_set.h"
#include "rpc/transport/grpc/grpc_connection.h"
#include "rpc/transport/grpc/grpc_transport.h"
#include "rpc/transport/grpc/poller.h"

namespace gradwire::rpc {

class GrpcListener final : public Listener {
 public:
  GrpcListener(std::shared_ptr<ConnectionSet> connections, AcceptFn accept, Clock* clock)
      : connections_(std::move(connections)),
        group_(connections_->NewGroup()),
        accept_(std::move(accept)),
        clock_(clock) {}
  ~GrpcListener() override;

  absl::Status Start(const std::string& address, const GrpcTransportOptions& options);
  std::string address() const override { return address_; }

 private:
  class ServerStream;
  class Accepting;
  using Service =
      v1::Session::WithRawMethod_Control<v1::Session::WithRawMethod_Bulk<v1::Session::Service>>;

  // Waits for one more stream of the lane.
  void AcceptNext(Lane lane) GW_EXCLUDES(mu_);
  void Accepted(Lane lane, std::unique_ptr<ServerStream> stream) GW_EXCLUDES(mu_);

  const std::shared_ptr<ConnectionSet> connections_;
  const ConnectionSet::Group group_;
  const AcceptFn accept_;
  Clock* const clock_;
  Service service_;
  int port_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  grpc::ServerCompletionQueue* queues_[2] = {nullptr, nullptr};  // the pollers' own
  std::unique_ptr<Poller> pollers_[2];
  Mutex mu_;
  bool stopped_ GW_GUARDED_BY(mu_) = false;
};

}  // namespace gradwire::rpc
