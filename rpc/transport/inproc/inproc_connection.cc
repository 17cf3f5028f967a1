#include "rpc/transport/inproc/inproc_connection.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {

InprocConnection::InprocConnection(std::shared_ptr<InprocLoop> loop, Clock* clock,
                                   std::string peer_address, std::function<void()> on_end)
    : loop_(std::move(loop)),
      clock_(clock),
      peer_address_(std::move(peer_address)),
      on_end_(std::move(on_end)) {}

void InprocConnection::Open(std::shared_ptr<ConnectionHandler> handler) {
  MutexLock lock(mu_);
  self_ = shared_from_this();
  handler_ = std::move(handler);
  if (closed_) EndSoonLocked();
}

void InprocConnection::Join(std::shared_ptr<InprocConnection> other) {
  {
    MutexLock lock(mu_);
    if (self_ != nullptr && !ending_) {
      other_ = other;
      if (!wanted_ || closed_) return;
      pulling_ = true;
      other = nullptr;
    }
  }
  if (other == nullptr) {
    Pull();
  } else {
    other->PeerEnded();  // this end is over already; the other one hears of it here
  }
}

void InprocConnection::GiveUpAfter(absl::Duration timeout, absl::Status why) {
  clock_->CallAfter(timeout, [weak = weak_from_this(), why = std::move(why)] {
    auto self = weak.lock();
    if (self == nullptr) return;
    {
      MutexLock lock(self->mu_);
      if (self->other_ != nullptr) return;
    }
    self->Close(why);
  });
}

void InprocConnection::WantWrite() {
  {
    MutexLock lock(mu_);
    wanted_ = true;
    if (other_ == nullptr || pulling_ || writing_ || closed_ || (closing_ && last_pull_)) return;
    pulling_ = true;
  }
  Pull();
}

void InprocConnection::Pull() {
  while (true) {
    std::shared_ptr<ConnectionHandler> handler;
    {
      MutexLock lock(mu_);
      if (!wanted_ || closed_ || (closing_ && last_pull_)) {
        pulling_ = false;
        if (closing_) closed_ = true;  // the last word was taken
        if (closed_) EndSoonLocked();
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
    std::shared_ptr<InprocConnection> other;
    {
      MutexLock lock(mu_);
      pulling_ = false;
      if (closed_) {
        EndSoonLocked();
        return;
      }
      writing_ = true;
      other = other_;
    }
    other->Receive(std::move(message));
    return;
  }
}

void InprocConnection::Receive(BufferList message) {
  MutexLock lock(mu_);
  if (self_ == nullptr || closed_) return;  // the sender hears of the end instead
  inbox_ = std::move(message);
  loop_->Post([self = shared_from_this()] { self->Deliver(); });
}

void InprocConnection::Deliver() {
  std::optional<BufferList> message;
  std::shared_ptr<ConnectionHandler> handler;
  std::shared_ptr<InprocConnection> other;
  {
    MutexLock lock(mu_);
    message = std::exchange(inbox_, std::nullopt);
    if (closed_ || !message.has_value()) return;
    handler = handler_;
    other = other_;
  }
  // The slot is free: the other end may write the next one while this one is looked at.
  if (other != nullptr) other->loop_->Post([other] { other->OnWritten(); });
  handler->OnMessage(*std::move(message));
}

void InprocConnection::OnWritten() {
  {
    MutexLock lock(mu_);
    writing_ = false;
    wanted_ = true;
    if (pulling_ || closed_ || self_ == nullptr) return;
    pulling_ = true;
  }
  Pull();
}

void InprocConnection::PeerEnded() {
  loop_->Post([self = shared_from_this()] {
    self->Close(absl::UnavailableError(absl::StrCat("connection closed by ", self->peer_address_)));
  });
}

void InprocConnection::Close(absl::Status why) {
  MutexLock lock(mu_);
  CloseLocked(std::move(why));
}

void InprocConnection::CloseLocked(absl::Status why) {
  if (!closed_) {
    closed_ = true;
    if (why_.ok()) why_ = std::move(why);
  }
  EndSoonLocked();
}

void InprocConnection::CloseAfterWrites(absl::Status why, absl::Duration linger) {
  bool pull = false;
  {
    MutexLock lock(mu_);
    if (closed_ || closing_) return;
    closing_ = true;
    why_ = why;
    wanted_ = true;
    if (other_ != nullptr && !pulling_ && !writing_) pull = pulling_ = true;
  }
  clock_->CallAfter(linger, [weak = weak_from_this(), why = std::move(why)] {
    if (auto self = weak.lock()) self->Close(why);
  });
  if (pull) Pull();
}

void InprocConnection::EndSoonLocked() {
  // Not open yet: Open does it. A pull is under way: it does it when it is back.
  if (self_ == nullptr || ending_ || pulling_) return;
  ending_ = true;
  loop_->Post([self = self_] { self->End(); });
}

void InprocConnection::End() {
  std::shared_ptr<InprocConnection> self, other;
  std::shared_ptr<ConnectionHandler> handler;
  absl::Status why;
  {
    MutexLock lock(mu_);
    self = std::move(self_);
    other = std::move(other_);
    handler = std::move(handler_);
    inbox_.reset();
    why = why_;
  }
  if (other != nullptr) other->PeerEnded();
  if (handler != nullptr) handler->OnClosed(why);
  handler = nullptr;
  std::function<void()> on_end = std::move(on_end_);
  if (on_end) on_end();
}

}  // namespace gradwire::rpc
