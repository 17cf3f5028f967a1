#include "rpc/transport/grpc/grpc_transport.h"

#include <grpc/support/log.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "rpc/transport/connection_set.h"
#include "rpc/transport/grpc/grpc_address.h"
#include "rpc/transport/grpc/grpc_channel_args.h"
#include "rpc/transport/grpc/grpc_connection.h"
#include "rpc/transport/grpc/grpc_listener.h"
#include "rpc/transport/grpc/poller.h"

namespace gradwire::rpc {
namespace {

constexpr char kControlMethod[] = "/gradwire.v1.Session/Control";
constexpr char kBulkMethod[] = "/gradwire.v1.Session/Bulk";
// Reconnects of one channel; sessions dial anew, so this rarely matters.
constexpr int kBackoffMinMs = 100;
constexpr int kBackoffMaxMs = 2000;

// gRPC's default engine watches all sockets of a process in one epoll set, and one thread of those
// that wait in any queue gets everybody's events and wakes the right one: a thread that polls, or
// that waits for its own result, gains nothing. "poll" watches the sockets of each queue by itself
// (bench/README.md has the numbers). What the environment says goes first. Set before main, since
// setenv is no thing for a process with threads.
[[maybe_unused]] const bool polls_each_queue = [] {
  return setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0) == 0;
}();

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

// A dial that cannot be: ends at once, on the timer thread.
class FailedConnection final : public Connection {
 public:
  explicit FailedConnection(std::string address) : address_(std::move(address)) {}
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
    connections_->CloseAllAndWait(absl::CancelledError("the transport was destroyed"));
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override {
    GW_RETURN_IF_ERROR(CheckGrpcAddress(address));
    auto listener = std::make_unique<GrpcListener>(connections_, std::move(accept), clock_);
    GW_RETURN_IF_ERROR(listener->Start(address, options_));
    return std::unique_ptr<Listener>(std::move(listener));
  }

  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override {
    if (absl::Status bad = CheckGrpcAddress(address); !bad.ok()) {
      return Fail(address, std::move(handler), std::move(bad));
    }
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    args.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
    args.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, MillisForGrpc(timeout));
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kBackoffMinMs);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kBackoffMaxMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, MillisForGrpc(options_.keepalive));
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
        absl::StrCat("dns:", address), grpc::InsecureChannelCredentials(), args);
    const bool control = lane == Lane::kControl;
    Poller* const poller = DialPoller(lane);
    auto stream = std::make_unique<ClientStream>(
        std::move(channel), control ? kControlMethod : kBulkMethod, poller->queue());
    const uint64_t number = connections_->Add(ConnectionSet::kDialled);
    auto connection = std::make_shared<GrpcConnection>(
        std::move(stream), address, /*dialled=*/true, poller->wait_driver(), clock_,
        [set = connections_, number] { set->Ended(number); });
    connections_->Started(number, connection);
    connection->StartDialled(std::move(handler), timeout);
    return connection;
  }

 private:
  std::shared_ptr<Connection> Fail(const std::string& address,
                                   std::shared_ptr<ConnectionHandler> handler, absl::Status why) {
    const uint64_t number = connections_->Add(ConnectionSet::kDialled);
    clock_->CallAfter(absl::ZeroDuration(), [set = connections_, number, handler, why]() mutable {
      handler->OnClosed(why);
      handler = nullptr;
      set->Ended(number);
    });
    return std::make_shared<FailedConnection>(address);
  }

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
  const std::shared_ptr<ConnectionSet> connections_ = std::make_shared<ConnectionSet>();
  Mutex mu_;
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
