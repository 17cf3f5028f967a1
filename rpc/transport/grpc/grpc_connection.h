// One stream of frames, from either end. Internal to rpc/transport/grpc.
//
// Operations in flight: at most one read, one write and the finish. The connection keeps itself
// alive until the last of them has been given back, then reports OnClosed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/grpc/poller.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

// What differs between the ends of a stream.
class GrpcStream {
 public:
  virtual ~GrpcStream() = default;
  // Dialled streams only.
  virtual void Open(void* tag) = 0;
  virtual void Read(grpc::ByteBuffer* into, void* tag) = 0;
  virtual void Write(const grpc::ByteBuffer& message, void* tag) = 0;
  // The last operation. At the client it yields the peer's status, at the server it sends `status`.
  virtual void Finish(grpc::Status* status, void* tag) = 0;
  // Nothing more is written from here (client: half close; server: nothing, Finish says it). False:
  // no operation was started.
  virtual bool WritesDone(void* tag) = 0;
  virtual void Cancel() = 0;
};

class GrpcConnection final : public Connection,
                             public std::enable_shared_from_this<GrpcConnection> {
 public:
  // `on_end` runs once, after OnClosed. `wait_driver`: of the queue that carries the stream.
  GrpcConnection(std::unique_ptr<GrpcStream> stream, std::string peer_address, bool dialled,
                 std::shared_ptr<WaitDriver> wait_driver, Clock* clock,
                 std::function<void()> on_end);

  // Accepted: the stream is up. Without a handler it is refused.
  void StartAccepted(std::shared_ptr<ConnectionHandler> handler);
  // Dialled: opens the stream; given up after `timeout`.
  void StartDialled(std::shared_ptr<ConnectionHandler> handler, absl::Duration timeout);

  void WantWrite() override;
  void Close(absl::Status why) override;
  void CloseAfterWrites(absl::Status why, absl::Duration linger) override;
  std::string peer_address() const override { return peer_address_; }
  std::shared_ptr<WaitDriver> wait_driver() override { return wait_driver_; }

 private:
  class Op final : public PollTag {
   public:
    using Method = void (GrpcConnection::*)(bool ok);
    Op(GrpcConnection* connection, Method method) : connection_(connection), method_(method) {}
    void Done(bool ok) override;

   private:
    GrpcConnection* const connection_;
    const Method method_;
  };

  void OnOpened(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnWritesDone(bool ok);
  void OnFinished(bool ok);
  // Pulls and writes the next message; `pulling_` is ours.
  void Pull();
  void CloseLocked(absl::Status why) GW_REQUIRES(mu_);
  // Starts the finish once nothing else is in flight; a server ends the stream with `status`.
  void FinishIfIdleLocked(const grpc::Status& status = grpc::Status::OK) GW_REQUIRES(mu_);
  // Reports the end once all operations have been given back.
  void EndIfDone();
  absl::Status ReasonLocked() const GW_REQUIRES(mu_);

  const std::string peer_address_;
  const bool dialled_;
  const std::shared_ptr<WaitDriver> wait_driver_;
  Clock* const clock_;
  std::function<void()> on_end_;
  Op open_op_{this, &GrpcConnection::OnOpened};
  Op read_op_{this, &GrpcConnection::OnRead};
  Op write_op_{this, &GrpcConnection::OnWritten};
  Op writes_done_op_{this, &GrpcConnection::OnWritesDone};
  Op finish_op_{this, &GrpcConnection::OnFinished};
  grpc::ByteBuffer incoming_;  // of the read in flight
  grpc::Status status_;        // of the finish

  Mutex mu_;
  std::shared_ptr<GrpcStream> stream_ GW_GUARDED_BY(mu_);    // until the end
  std::shared_ptr<GrpcConnection> self_ GW_GUARDED_BY(mu_);  // while operations are in flight
  std::shared_ptr<ConnectionHandler> handler_ GW_GUARDED_BY(mu_);
  bool opening_ GW_GUARDED_BY(mu_) = false;
  bool started_ GW_GUARDED_BY(mu_) = false;
  bool wanted_ GW_GUARDED_BY(mu_) = false;
  bool pulling_ GW_GUARDED_BY(mu_) = false;
  bool writing_ GW_GUARDED_BY(mu_) = false;
  bool reading_ GW_GUARDED_BY(mu_) = false;
  bool read_ended_ GW_GUARDED_BY(mu_) = false;
  bool finishing_ GW_GUARDED_BY(mu_) = false;
  bool finished_ GW_GUARDED_BY(mu_) = false;
  bool closed_ GW_GUARDED_BY(mu_) = false;     // Close was called, or the dial failed
  bool closing_ GW_GUARDED_BY(mu_) = false;    // CloseAfterWrites was called
  bool last_pull_ GW_GUARDED_BY(mu_) = false;  // … and its one more message was asked for
  bool half_closed_ GW_GUARDED_BY(mu_) = false;
  absl::Status why_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
