#include "rpc/transport/grpc/grpc_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/grpc/grpc_bytes.h"

namespace gradwire::rpc {
namespace {
// What a refused dialler is told: RESOURCE_EXHAUSTED to anybody's client, and by this text ours
// tells it from a message that was too large.
constexpr char kRefused[] = "the listener refused the connection";
}  // namespace

void GrpcConnection::Op::Done(bool ok) {
  // The connection may end in there; it lives until this returns.
  const std::shared_ptr<GrpcConnection> keep = connection_->shared_from_this();
  (connection_->*method_)(ok);
}

GrpcConnection::GrpcConnection(std::unique_ptr<GrpcStream> stream, std::string peer_address,
                               bool dialled, std::shared_ptr<WaitDriver> wait_driver, Clock* clock,
                               std::function<void()> on_end)
    : peer_address_(std::move(peer_address)),
      dialled_(dialled),
      wait_driver_(std::move(wait_driver)),
      clock_(clock),
      on_end_(std::move(on_end)),
      stream_(std::move(stream)) {}

void GrpcConnection::StartAccepted(std::shared_ptr<ConnectionHandler> handler) {
  bool pull = false;
  {
    MutexLock lock(mu_);
    self_ = shared_from_this();
    started_ = true;
    if (handler == nullptr) {
      closed_ = true;
      read_ended_ = true;
      FinishIfIdleLocked(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, kRefused));
      return;
    }
    handler_ = std::move(handler);
    reading_ = true;
    stream_->Read(&incoming_, &read_op_);
    if (closed_) stream_->Cancel();  // inside AcceptFn
    if (wanted_ && !closed_) pull = pulling_ = true;
  }
  if (pull) Pull();
}

void GrpcConnection::StartDialled(std::shared_ptr<ConnectionHandler> handler,
                                  absl::Duration timeout) {
  {
    MutexLock lock(mu_);
    self_ = shared_from_this();
    handler_ = std::move(handler);
    opening_ = true;
    stream_->Open(&open_op_);
    if (closed_) stream_->Cancel();
  }
  clock_->CallAfter(timeout, [weak = weak_from_this(), timeout] {
    auto self = weak.lock();
    if (self == nullptr) return;
    {
      MutexLock lock(self->mu_);
      if (!self->opening_) return;
    }
    self->Close(absl::UnavailableError(absl::StrCat("dialling ", self->peer_address_,
                                                    ": no connection within ",
                                                    absl::FormatDuration(timeout))));
  });
}

void GrpcConnection::OnOpened(bool ok) {
  bool pull = false;
  {
    MutexLock lock(mu_);
    opening_ = false;
    started_ = true;
    if (ok && !closed_) {
      reading_ = true;
      stream_->Read(&incoming_, &read_op_);
      if (wanted_) pull = pulling_ = true;
    } else {
      read_ended_ = true;
      FinishIfIdleLocked();
    }
  }
  if (pull) Pull();
}

void GrpcConnection::WantWrite() {
  {
    MutexLock lock(mu_);
    wanted_ = true;
    if (!started_ || pulling_ || writing_ || closed_ || finishing_ || half_closed_) return;
    pulling_ = true;
  }
  Pull();
}

void GrpcConnection::Pull() {
  while (true) {
    std::shared_ptr<ConnectionHandler> handler;
    {
      MutexLock lock(mu_);
      if (!wanted_ || closed_ || read_ended_ || (closing_ && last_pull_)) {
        pulling_ = false;
        if (closing_ && !closed_ && !half_closed_ && !read_ended_) {
          // The last word is out. The client half-closes and waits for the server's end; the server
          // ends.
          half_closed_ = true;
          if (stream_->WritesDone(&writes_done_op_)) {
            writing_ = true;
          } else {
            read_ended_ = true;  // nothing more is read here
          }
        }
        FinishIfIdleLocked();
        return;
      }
      wanted_ = false;
      if (closing_) last_pull_ = true;
      handler = handler_;
    }
    BufferList message;
    if (!handler->NextMessage(message)) continue;
    if (message.size_bytes() > kMaxMessageBytes) {
      MutexLock lock(mu_);
      pulling_ = false;
      CloseLocked(absl::ResourceExhaustedError(absl::StrCat("a message of ", message.size_bytes(),
                                                            " bytes, at most ", kMaxMessageBytes)));
      return;
    }
    const grpc::ByteBuffer bytes = ToGrpc(message);
    std::shared_ptr<GrpcStream> stream;  // it may come to its end before Write returns
    {
      MutexLock lock(mu_);
      stream = stream_;
      pulling_ = false;
      if (closed_ || finishing_) {
        FinishIfIdleLocked();
        return;
      }
      writing_ = true;
    }
    // Outside the lock: this may go down to the socket.
    stream->Write(bytes, &write_op_);
    return;
  }
}

void GrpcConnection::OnWritten(bool ok) {
  {
    MutexLock lock(mu_);
    writing_ = false;
    if (!ok || closed_ || read_ended_) {
      FinishIfIdleLocked();
      return;
    }
    wanted_ = true;
    pulling_ = true;
  }
  Pull();
}

void GrpcConnection::OnWritesDone(bool) {
  MutexLock lock(mu_);
  writing_ = false;
  FinishIfIdleLocked();
}

void GrpcConnection::OnRead(bool ok) {
  std::shared_ptr<ConnectionHandler> handler;
  {
    MutexLock lock(mu_);
    if (ok && !closed_ && !read_ended_) handler = handler_;
  }
  if (handler != nullptr) {
    handler->OnMessage(FromGrpc(incoming_));
    incoming_.Clear();
    MutexLock lock(mu_);
    if (!read_ended_) {
      stream_->Read(&incoming_, &read_op_);
      return;
    }
  }
  {
    MutexLock lock(mu_);
    reading_ = false;
    read_ended_ = true;
    FinishIfIdleLocked();
  }
  EndIfDone();
}

void GrpcConnection::Close(absl::Status why) {
  MutexLock lock(mu_);
  CloseLocked(std::move(why));
}

void GrpcConnection::CloseLocked(absl::Status why) {
  if (!closed_) {
    closed_ = true;
    if (why_.ok()) why_ = std::move(why);
    if (self_ != nullptr) stream_->Cancel();  // else it is not started, or over
  }
  FinishIfIdleLocked();
}

void GrpcConnection::CloseAfterWrites(absl::Status why, absl::Duration linger) {
  bool pull = false;
  {
    MutexLock lock(mu_);
    if (closed_ || closing_) return;
    closing_ = true;
    why_ = why;
    wanted_ = true;
    if (started_ && !pulling_ && !writing_ && !finishing_) pull = pulling_ = true;
  }
  clock_->CallAfter(linger, [weak = weak_from_this(), why] {
    if (auto self = weak.lock()) self->Close(why);
  });
  if (pull) Pull();
}

void GrpcConnection::FinishIfIdleLocked(const grpc::Status& status) {
  if (finishing_ || opening_ || pulling_ || writing_ || self_ == nullptr || !started_) return;
  if (!read_ended_) return;
  finishing_ = true;
  status_ = status;
  stream_->Finish(&status_, &finish_op_);
}

void GrpcConnection::OnFinished(bool) {
  {
    MutexLock lock(mu_);
    finished_ = true;
  }
  EndIfDone();
}

void GrpcConnection::EndIfDone() {
  std::shared_ptr<ConnectionHandler> handler;
  std::shared_ptr<GrpcConnection> self;
  std::shared_ptr<GrpcStream> stream;
  std::function<void()> on_end;
  absl::Status why;
  {
    MutexLock lock(mu_);
    // A server that ends by itself leaves its read behind; it returns after the finish.
    if (!finished_ || reading_ || self_ == nullptr) return;
    why = ReasonLocked();
    handler = std::move(handler_);
    self = std::move(self_);
    on_end = std::move(on_end_);
    stream = std::move(stream_);
  }
  if (handler != nullptr) handler->OnClosed(why);
  handler = nullptr;
  stream = nullptr;  // with it goes the TCP connection of a dialled one
  if (on_end) on_end();
}

absl::Status GrpcConnection::ReasonLocked() const {
  if (!why_.ok()) return why_;
  if (!dialled_)
    return absl::UnavailableError(absl::StrCat("connection closed by ", peer_address_));
  const std::string text = absl::StrCat(
      peer_address_, ": ",
      status_.ok() ? std::string("connection closed by the peer") : status_.error_message());
  if (status_.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      status_.error_message() != kRefused) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::UnavailableError(text);
}

}  // namespace gradwire::rpc
