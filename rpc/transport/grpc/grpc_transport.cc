#include "rpc/transport/grpc/grpc_transport.h"

#include <grpc/support/log.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gradwire/v1/session.grpc.pb.h"
#include "rpc/base/status.h"
#include "rpc/transport/grpc/grpc_connection.h"
#include "rpc/transport/grpc/poller.h"

namespace gradwire::rpc {
namespace {

constexpr char kControlMethod[] = "/gradwire.v1.Session/Control";
constexpr char kBulkMethod[] = "/gradwire.v1.Session/Bulk";
// Reconnects of one channel; sessions dial anew, so this rarely matters.
constexpr int kBackoffMinMs = 100;
constexpr int kBackoffMaxMs = 2000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Metadata of a stream; ours send none.
constexpr int kMaxMetadataBytes = 8 << 10;

int Millis(absl::Duration d) { return static_cast<int>(absl::ToInt64Milliseconds(d)); }

// "host:port" with brackets around an IPv6 address.
absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535 ||
      (address.find(':') != colon && (address.front() != '[' || address[colon - 1] != ']'))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is not host:port (an IPv6 address goes in brackets: [::1]:7000)"));
  }
  return absl::OkStatus();
}

// ---- the two ends of a stream ----

class ClientStream final : public GrpcStream {
 public:
  ClientStream(std::shared_ptr<grpc::Channel> channel, const char* method,
               grpc::CompletionQueue* queue)
      : channel_(std::move(channel)), stub_(channel_) {
    stream_ = stub_.PrepareCall(&context_, method, queue);
  }
  void Open(void* tag) override {
    HandToGrpc(tag);
    stream_->StartCall(tag);
  }
  void Read(grpc::ByteBuffer* into, void* tag) override {
    HandToGrpc(tag);
    stream_->Read(into, tag);
  }
  void Write(const grpc::ByteBuffer& message, void* tag) override {
    HandToGrpc(tag);
    stream_->Write(message, tag);
  }
  void Finish(grpc::Status* status, void* tag) override {
    HandToGrpc(tag);
    stream_->Finish(status, tag);
  }
  bool WritesDone(void* tag) override {
    HandToGrpc(tag);
    stream_->WritesDone(tag);
    return true;
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

class ServerStream final : public GrpcStream {
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

using Service =
    v1::Session::WithRawMethod_Control<v1::Session::WithRawMethod_Bulk<v1::Session::Service>>;

// ---- what all connections of a transport share ----

// Counts connections, so that the end can wait for them; knows them, so that it can close them.
class Registry : public std::enable_shared_from_this<Registry> {
 public:
  std::shared_ptr<GrpcConnection> Make(std::unique_ptr<GrpcStream> stream, std::string address,
                                       bool dialled, Clock* clock, int group) {
    MutexLock lock(mu_);
    const uint64_t id = ++last_id_;
    auto connection =
        std::make_shared<GrpcConnection>(std::move(stream), std::move(address), dialled, clock,
                                         [self = shared_from_this(), id] { self->Ended(id); });
    live_.emplace(id, Entry{group, connection});
    return connection;
  }

  // Closes the connections of a group (negative: all) and waits until they have ended.
  void CloseAndWait(int group, const absl::Status& why) {
    while (true) {
      std::vector<std::shared_ptr<GrpcConnection>> connections;
      {
        MutexLock lock(mu_);
        bool any = false;
        for (auto& [id, entry] : live_) {
          if (group >= 0 && entry.group != group) continue;
          any = true;
          if (auto connection = entry.connection.lock())
            connections.push_back(std::move(connection));
        }
        if (!any) return;
      }
      for (const auto& connection : connections) connection->Close(why);
      connections.clear();
      MutexLock lock(mu_);
      ended_.WaitFor(mu_, absl::Milliseconds(20));
    }
  }

 private:
  struct Entry {
    int group;
    std::weak_ptr<GrpcConnection> connection;
  };
  void Ended(uint64_t id) {
    MutexLock lock(mu_);
    live_.erase(id);
    ended_.NotifyAll();
  }
  Mutex mu_;
  CondVar ended_;
  uint64_t last_id_ GW_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Entry> live_ GW_GUARDED_BY(mu_);
};

// ---- the accepting side ----

class GrpcListener final : public Listener {
 public:
  GrpcListener(std::shared_ptr<Registry> registry, int group, AcceptFn accept, Clock* clock)
      : registry_(std::move(registry)), group_(group), accept_(std::move(accept)), clock_(clock) {}

  absl::Status Start(const std::string& address, const GrpcTransportOptions& options) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
    builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                               Millis(options.handshake_timeout));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               Millis(options.max_connection_idle));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    std::unique_ptr<grpc::ServerCompletionQueue> queues[2] = {builder.AddCompletionQueue(),
                                                              builder.AddCompletionQueue()};
    server_queues_[0] = queues[0].get();
    server_queues_[1] = queues[1].get();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      for (auto& queue : queues) {
        queue->Shutdown();
        void* tag = nullptr;
        bool ok = false;
        while (queue->Next(&tag, &ok)) {
        }
      }
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address,
                       ": the port is in use, or the address is not one of this machine"));
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

  ~GrpcListener() override {
    if (pollers_[0] == nullptr) return;
    const absl::Status why = absl::CancelledError("the listener was destroyed");
    {
      MutexLock lock(mu_);
      stopped_ = true;
    }
    // Streams first (their last words), then the server, then its queues.
    registry_->CloseAndWait(group_, why);
    server_->Shutdown(std::chrono::system_clock::now());
    registry_->CloseAndWait(group_, why);
    pollers_[0] = nullptr;
    pollers_[1] = nullptr;
  }

  std::string address() const override { return address_; }

 private:
  // One stream that is waited for.
  class Accepting final : public PollTag {
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

  void AcceptNext(Lane lane) {
    {
      MutexLock lock(mu_);
      if (stopped_) return;
    }
    auto* accepting = new Accepting(this, lane);  // owns itself until Done
    ServerStream* const stream = accepting->stream();
    void* const tag = static_cast<PollTag*>(accepting);
    grpc::ServerCompletionQueue* queue = server_queues_[lane == Lane::kControl ? 0 : 1];
    HandToGrpc(tag);
    if (lane == Lane::kControl) {
      service_.RequestControl(stream->context(), stream->stream(), queue, queue, tag);
    } else {
      service_.RequestBulk(stream->context(), stream->stream(), queue, queue, tag);
    }
  }

  void Accepted(Lane lane, std::unique_ptr<ServerStream> stream) {
    const std::string peer = stream->context()->peer();
    std::shared_ptr<GrpcConnection> connection =
        registry_->Make(std::move(stream), peer, /*dialled=*/false, clock_, group_);
    bool stopped = false;
    {
      MutexLock lock(mu_);
      stopped = stopped_;
    }
    std::shared_ptr<ConnectionHandler> handler = stopped ? nullptr : accept_(connection, lane);
    const bool refused = handler == nullptr;
    connection->StartAccepted(std::move(handler));
    if (refused) connection->Close(absl::ResourceExhaustedError("refused"));
  }

  const std::shared_ptr<Registry> registry_;
  const int group_;
  const AcceptFn accept_;
  Clock* const clock_;
  Service service_;
  int port_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  grpc::ServerCompletionQueue* server_queues_[2] = {nullptr, nullptr};
  std::unique_ptr<Poller> pollers_[2];
  Mutex mu_;
  bool stopped_ GW_GUARDED_BY(mu_) = false;
};

// ---- the transport ----

// A dial to something that is no address: ends at once, on the timer thread.
class FailedConnection final : public Connection,
                               public std::enable_shared_from_this<FailedConnection> {
 public:
  explicit FailedConnection(std::string address) : address_(std::move(address)) {}
  void Fail(Clock& clock, std::shared_ptr<ConnectionHandler> handler, absl::Status why) {
    clock.CallAfter(absl::ZeroDuration(),
                    [self = shared_from_this(), handler, why] { handler->OnClosed(why); });
  }
  void WantWrite() override {}
  void Close(absl::Status) override {}
  void CloseAfterWrites(absl::Status, absl::Duration) override {}
  std::string peer_address() const override { return address_; }

 private:
  const std::string address_;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(const GrpcTransportOptions& options)
      : options_(options), clock_(options.clock == nullptr ? &Clock::Real() : options.clock) {}

  ~GrpcTransport() override {
    registry_->CloseAndWait(-1, absl::CancelledError("the transport was destroyed"));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override {
    GW_RETURN_IF_ERROR(CheckAddress(address));
    int group = 0;
    {
      MutexLock lock(mu_);
      group = ++last_group_;
    }
    auto listener = std::make_unique<GrpcListener>(registry_, group, std::move(accept), clock_);
    GW_RETURN_IF_ERROR(listener->Start(address, options_));
    return std::unique_ptr<Listener>(std::move(listener));
  }

  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override {
    if (absl::Status bad = CheckAddress(address); !bad.ok()) {
      auto failed = std::make_shared<FailedConnection>(address);
      failed->Fail(*clock_, std::move(handler), bad);
      return failed;
    }
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    args.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
    args.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Millis(timeout));
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kBackoffMinMs);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kBackoffMaxMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options_.keepalive));
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
        absl::StrCat("dns:", address), grpc::InsecureChannelCredentials(), args);
    const bool control = lane == Lane::kControl;
    auto stream = std::make_unique<ClientStream>(
        std::move(channel), control ? kControlMethod : kBulkMethod, DialPoller(lane)->queue());
    std::shared_ptr<GrpcConnection> connection =
        registry_->Make(std::move(stream), address, /*dialled=*/true, clock_, 0);
    connection->StartDialled(std::move(handler), timeout);
    return connection;
  }

 private:
  // Started with the first dial: a process that only listens has no use for it.
  Poller* DialPoller(Lane lane) {
    MutexLock lock(mu_);
    std::unique_ptr<Poller>& poller = pollers_[lane == Lane::kControl ? 0 : 1];
    if (poller == nullptr) {
      poller = std::make_unique<Poller>(std::make_unique<grpc::CompletionQueue>(),
                                        lane == Lane::kControl ? "gw-ctl-out" : "gw-bulk-out",
                                        options_.spin);
    }
    return poller.get();
  }

  const GrpcTransportOptions options_;
  Clock* const clock_;
  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  Mutex mu_;
  int last_group_ GW_GUARDED_BY(mu_) = 0;
  std::unique_ptr<Poller> pollers_[2] GW_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(const GrpcTransportOptions& options) {
  // What gRPC logs about its insides ends in a status of ours anyway; GRPC_VERBOSITY brings it
  // back.
  static const bool silenced = [] {
    const bool silence = std::getenv("GRPC_VERBOSITY") == nullptr;
    if (silence) gpr_set_log_function([](gpr_log_func_args*) {});
    return silence;
  }();
  (void)silenced;
  return std::make_unique<GrpcTransport>(options);
}

}  // namespace gradwire::rpc
