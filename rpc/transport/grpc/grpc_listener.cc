#include "rpc/transport/grpc/grpc_listener.h"

#include <grpcpp/resource_quota.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/grpc/grpc_channel_args.h"

namespace gradwire::rpc {

class GrpcListener::ServerStream final : public GrpcStream {
 public:
  ServerStream() : stream_(&context_) {}
  grpc::ServerContext* context() { return &context_; }
  auto* stream() { return &stream_; }

  void Open(void*) override {}
  void Read(grpc::ByteBuffer* into, void* tag) override {
    HandToGrpc(tag);
    stream_.Read(into, tag);
  }
  void Write(const grpc::ByteBuffer& message, void* tag) override {
    HandToGrpc(tag);
    stream_.Write(message, tag);
  }
  void Finish(grpc::Status* status, void* tag) override {
    HandToGrpc(tag);
    stream_.Finish(*status, tag);
  }
  bool WritesDone(void*) override { return false; }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
};

// One stream that is waited for; owns itself until Done.
class GrpcListener::Accepting final : public PollTag {
 public:
  Accepting(GrpcListener* listener, Lane lane)
      : listener_(listener), lane_(lane), stream_(std::make_unique<ServerStream>()) {}
  ServerStream* stream() { return stream_.get(); }
  void Done(bool ok) override {
    const std::unique_ptr<Accepting> self(this);
    if (!ok) return;  // the server is shut down
    listener_->AcceptNext(lane_);
    listener_->Accepted(lane_, std::move(stream_));
  }

 private:
  GrpcListener* const listener_;
  const Lane lane_;
  std::unique_ptr<ServerStream> stream_;
};

absl::Status GrpcListener::Start(const std::string& address, const GrpcTransportOptions& options) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(&service_);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             MillisForGrpc(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             MillisForGrpc(options.max_connection_idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, MillisForGrpc(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.SetResourceQuota(grpc::ResourceQuota("gradwire").Resize(options.max_unread_bytes));
  // New connections are greeted from the control lane's queue alone: a bulk lane at work holds
  // nobody up.
  std::unique_ptr<grpc::ServerCompletionQueue> queues[2] = {
      builder.AddCompletionQueue(/*is_frequently_polled=*/true),
      builder.AddCompletionQueue(/*is_frequently_polled=*/false)};
  queues_[0] = queues[0].get();
  queues_[1] = queues[1].get();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0) {
    if (server_ != nullptr) server_->Shutdown();
    for (auto& queue : queues) {
      queue->Shutdown();
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) {
      }
    }
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is in use, or the address is not one of this machine; choose "
                     "another, or port 0 for any free one"));
  }
  address_ = absl::StrCat(address.substr(0, address.rfind(':') + 1), port_);
  pollers_[0] = std::make_unique<Poller>(std::move(queues[0]), "gw-ctl-in", options.spin);
  pollers_[1] = std::make_unique<Poller>(std::move(queues[1]), "gw-bulk-in", options.spin);
  // Several accepts at a time, so that a burst of connections is not served one by one.
  for (int i = 0; i < 8; ++i) {
    AcceptNext(Lane::kControl);
    AcceptNext(Lane::kBulk);
  }
  return absl::OkStatus();
}

GrpcListener::~GrpcListener() {
  if (pollers_[0] == nullptr) return;
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  // Streams first, then the server, then its queues.
  connections_->CloseAndWait(group_, absl::CancelledError("the listener was destroyed"));
  server_->Shutdown(gpr_time_0(GPR_CLOCK_REALTIME));
  pollers_[0] = nullptr;
  pollers_[1] = nullptr;
}

void GrpcListener::AcceptNext(Lane lane) {
  // Under the lock: nothing is asked of a queue that is shut down.
  MutexLock lock(mu_);
  if (stopped_) return;
  auto* accepting = new Accepting(this, lane);
  ServerStream* const stream = accepting->stream();
  void* const tag = static_cast<PollTag*>(accepting);
  grpc::ServerCompletionQueue* const queue = queues_[lane == Lane::kControl ? 0 : 1];
  HandToGrpc(tag);
  if (lane == Lane::kControl) {
    service_.RequestControl(stream->context(), stream->stream(), queue, queue, tag);
  } else {
    service_.RequestBulk(stream->context(), stream->stream(), queue, queue, tag);
  }
}

void GrpcListener::Accepted(Lane lane, std::unique_ptr<ServerStream> stream) {
  // Known before anything else happens to it, so that the end of the listener waits for this.
  const std::optional<uint64_t> number = connections_->TryAdd(group_);
  if (!number) {
    stream->Cancel();
    return;
  }
  std::string peer = stream->context()->peer();
  auto connection = std::make_shared<GrpcConnection>(
      std::move(stream), std::move(peer), /*dialled=*/false,
      pollers_[lane == Lane::kControl ? 0 : 1]->wait_driver(), clock_,
      [set = connections_, number = *number] { set->Ended(number); });
  connections_->Started(*number, connection);
  connection->StartAccepted(accept_(connection, lane));
}

}  // namespace gradwire::rpc
