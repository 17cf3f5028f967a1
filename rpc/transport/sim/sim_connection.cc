#include "rpc/transport/sim/sim_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {

void SimConnection::Join(const std::shared_ptr<SimConnection>& a,
                         const std::shared_ptr<SimConnection>& b) {
  a->other_ = b;
  b->other_ = a;
}

void SimConnection::Start() {
  if (!open_) return;
  started_ = true;
  if (!writing_) Write();
}

void SimConnection::GiveUpAfter(absl::Duration timeout, const absl::Status& why) {
  network_->loop()->CallAfter(timeout, [weak = weak_from_this(), why] {
    auto self = weak.lock();
    if (self != nullptr && !self->started_) self->Close(why);
  });
}

void SimConnection::WantWrite() {
  wanted_ = true;
  if (!writing_) Write();
}

const SimFaults& SimConnection::faults() const {
  return network_->FaultsOf(here_->name(), there_->name(), lane_);
}

void SimConnection::Write() {
  if (!started_) return;
  while (wanted_ && open_ && !closed_here_ && here_->alive() && !here_->paused()) {
    wanted_ = false;
    if (closing_ && last_word_taken_) break;
    BufferList message;
    writing_ = true;  // NextMessage may call WantWrite
    const std::shared_ptr<ConnectionHandler> handler = handler_;
    if (closing_) last_word_taken_ = true;
    const bool any = handler != nullptr && handler->NextMessage(message);
    writing_ = false;
    if (!open_ || closed_here_) return;  // closed from inside
    if (!any) continue;
    if (message.size_bytes() > kMaxMessageBytes) {
      Close(absl::ResourceExhaustedError(absl::StrCat("a message of ", message.size_bytes(),
                                                      " bytes, at most ", kMaxMessageBytes)));
      return;
    }
    Send(std::move(message));
    writing_ = true;
    network_->loop()->CallAfter(faults().write_time, [self = shared_from_this()] {
      self->here_->Run([self] {
        self->writing_ = false;
        self->wanted_ = true;
        self->Write();
      });
    });
    return;
  }
  if (closing_ && !writing_) Close(closing_why_);
}

void SimConnection::Send(BufferList message) {
  const SimFaults& faults = this->faults();
  if (silent_ || network_->partitions_.contains({here_->name(), there_->name()})) {
    ++network_->lost_count_;
    return;
  }
  if (network_->rng_.Chance(faults.loss)) {
    ++network_->lost_count_;
    return;
  }
  const int copies = network_->rng_.Chance(faults.duplicate) ? 2 : 1;
  if (copies == 2) ++network_->duplicated_count_;
  for (int i = 0; i < copies; ++i) {
    absl::Time arrival = network_->loop()->Now() + network_->Delay(faults);
    if (network_->rng_.Chance(faults.reorder)) {
      ++network_->reordered_count_;
      arrival += network_->Delay(faults) * 3;  // later than what is sent next
    } else {
      arrival = std::max(arrival, next_arrival_);
      next_arrival_ = arrival;
    }
    network_->loop()->CallAt(arrival, [other = other_, message] {
      if (auto end = other.lock()) end->Deliver(message);
    });
  }
}

void SimConnection::Deliver(BufferList message) {
  if (!open_ || silent_ || !here_->alive()) return;
  here_->Run([self = shared_from_this(), message = std::move(message)] {
    if (!self->open_ || self->closed_here_ || self->handler_ == nullptr) return;
    self->network_->Trace(*self, message);
    const std::shared_ptr<ConnectionHandler> handler = self->handler_;
    handler->OnMessage(message);
  });
}

void SimConnection::Close(absl::Status why) {
  if (!open_ || closed_here_) return;
  closed_here_ = true;
  // The other end hears of it after what is under way to it.
  const bool reaches = !silent_ && !network_->partitions_.contains({here_->name(), there_->name()});
  if (auto other = other_.lock(); other != nullptr && reaches) {
    const absl::Duration after =
        std::max(next_arrival_ - network_->loop()->Now(), network_->Delay(faults()));
    other->EndAfter(
        after, absl::UnavailableError(absl::StrCat("connection closed by ", here_->address())));
  }
  EndAfter(absl::ZeroDuration(), why);
}

void SimConnection::CloseAfterWrites(absl::Status why, absl::Duration linger) {
  if (!open_ || closing_ || closed_here_) return;
  closing_ = true;
  closing_why_ = why;
  wanted_ = true;
  network_->loop()->CallAfter(linger, [weak = weak_from_this(), why] {
    if (auto self = weak.lock()) self->Close(why);
  });
  if (!writing_) Write();
}

void SimConnection::EndAfter(absl::Duration after, const absl::Status& why) {
  if (!open_) return;
  network_->loop()->CallAfter(after, [self = shared_from_this(), why] {
    if (!self->here_->alive()) {
      self->Drop();
      return;
    }
    self->here_->Run([self, why] { self->End(why); });
  });
}

void SimConnection::CloseNow(const absl::Status& why) {
  Close(why);
  if (here_->alive()) {
    End(why);
  } else {
    Drop();
  }
}

void SimConnection::End(const absl::Status& why) {
  if (!open_) return;
  open_ = false;
  const std::shared_ptr<SimConnection> self = std::move(self_);
  const std::shared_ptr<ConnectionHandler> handler = std::exchange(handler_, nullptr);
  if (handler != nullptr) handler->OnClosed(why);
}

}  // namespace gradwire::rpc
