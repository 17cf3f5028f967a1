#include "rpc/agent/bulk_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/security/proof.h"

namespace gradwire::rpc {
namespace {

constexpr absl::Duration kLinger = absl::Seconds(1);

std::vector<TransferProgress> ToWire(const std::vector<ReceivedProgress>& progress) {
  std::vector<TransferProgress> out;
  out.reserve(progress.size());
  for (const ReceivedProgress& p : progress) out.push_back({p.transfer, p.received_bytes});
  return out;
}
std::vector<ReceivedProgress> FromWire(const std::vector<TransferProgress>& progress) {
  std::vector<ReceivedProgress> out;
  out.reserve(progress.size());
  for (const TransferProgress& p : progress) out.push_back({p.transfer, p.received_bytes});
  return out;
}

}  // namespace

BulkLink::BulkLink(std::shared_ptr<NodeImpl> node, std::shared_ptr<Session> session)
    : node_(std::move(node)), dialler_(true), session_(std::move(session)) {
  BulkHello hello;
  hello.session = session_->id().value;
  hello.nonce = NewNonce(node_->rng());
  hello.proof = BulkProof(session_->session_key(), hello.session, hello.nonce);
  hello.progress = ToWire(session_->BulkProgress());
  hello_ = std::move(hello);
}

BulkLink::BulkLink(std::shared_ptr<NodeImpl> node) : node_(std::move(node)), dialler_(false) {}

void BulkLink::Start(std::shared_ptr<Connection> connection) {
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    connection_ = connection;
    const AgentLimits& limits = node_->limits();
    const absl::Duration time = dialler_ ? limits.handshake_timeout : limits.hello_timeout;
    timer_ = node_->clock().CallAfter(time, [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        {
          MutexLock lock(self->mu_);
          self->timer_ = TimerId{};
          if (self->state_ != State::kHello) return;
        }
        self->CloseConnection(absl::DeadlineExceededError("the bulk hello was not finished"));
      }
    });
  }
  if (dialler_) connection->WantWrite();
}

bool BulkLink::NextMessage(BufferList& out) {
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return false;
    if (hello_) {
      WriteBulkHello(*hello_, out);
      hello_.reset();
      return true;
    }
    if (ready_) {
      WriteBulkReady(*ready_, out);
      ready_.reset();
      return true;
    }
    if (state_ != State::kReady) return false;
    session = session_;
    link = link_;
  }
  return session->WriteChunk(link, out);
}

void BulkLink::OnMessage(BufferList message) {
  if (absl::Status parsed = ParseBulkFrame(message, frame_); !parsed.ok()) {
    CloseConnection(parsed);
    return;
  }
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  State state;
  {
    MutexLock lock(mu_);
    state = state_;
    session = session_;
    link = link_;
  }
  if (state == State::kReady) {
    if (frame_.has_chunk) session->OnChunk(link, frame_);
    return;  // a repeated hello is old news
  }
  if (state != State::kHello) return;
  if (dialler_ && frame_.ready) return OnReady(*frame_.ready);
  if (!dialler_ && frame_.hello) return OnHello(*frame_.hello);
  // Chunks that overtook the hello on a wire that reorders: asked for again later.
  if (frame_.has_chunk && dialler_) return;
  CloseConnection(absl::InvalidArgumentError("the first message of a bulk lane must be its hello"));
}

void BulkLink::OnHello(const BulkHello& hello) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    connection = connection_;
  }
  if (connection == nullptr) return;
  const std::shared_ptr<Session> session = node_->FindSession(SessionId{hello.session});
  absl::Status refusal;
  if (session == nullptr) {
    refusal = absl::NotFoundError("the session of this bulk lane is not known here");
  } else if (hello.nonce.size() != kNonceBytes ||
             !ConstantTimeEqual(hello.proof,
                                BulkProof(session->session_key(), hello.session, hello.nonce))) {
    refusal = absl::UnauthenticatedError("the proof of this bulk lane is wrong");
  } else if (!session->TakeBulkNonce(hello.nonce)) {
    refusal = absl::UnauthenticatedError("this bulk hello was said before");
  }
  BulkReady ready;
  ready.status_code = static_cast<uint32_t>(refusal.code());
  ready.status_message = std::string(refusal.message());
  if (!refusal.ok()) {
    ++node_->env().stats.hellos_refused;
    {
      MutexLock lock(mu_);
      ready_ = std::move(ready);
    }
    connection->CloseAfterWrites(refusal, kLinger);
    return;
  }
  ready.progress = ToWire(session->BulkProgress());
  {
    MutexLock lock(mu_);
    ready_ = std::move(ready);
  }
  const uint64_t link = session->AttachBulk(connection, FromWire(hello.progress));
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    session_ = session;
    link_ = link;
    state_ = State::kReady;
    if (std::exchange(pending_, false)) node_->HelloEnded();
  }
  if (link == 0) {
    CloseConnection(absl::NotFoundError("the session ended"));
  } else {
    connection->WantWrite();
  }
}

void BulkLink::OnReady(const BulkReady& ready) {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mu_);
    connection = connection_;
    session = session_;
  }
  if (ready.status_code != 0) {
    CloseConnection(absl::Status(static_cast<absl::StatusCode>(ready.status_code),
                                 absl::StrCat("bulk lane refused: ", ready.status_message)));
    return;
  }
  const uint64_t link = session->AttachBulk(connection, FromWire(ready.progress));
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    link_ = link;
    state_ = State::kReady;
    if (std::exchange(pending_, false)) node_->HelloEnded();
  }
  if (link == 0) {
    CloseConnection(absl::NotFoundError("the session ended"));
  } else {
    connection->WantWrite();
  }
}

void BulkLink::CloseConnection(const absl::Status& why) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    connection = connection_;
  }
  if (connection != nullptr) connection->Close(why);
}

void BulkLink::OnClosed(absl::Status why) {
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  bool was_ready = false;
  {
    MutexLock lock(mu_);
    was_ready = state_ == State::kReady && link_ != 0;
    state_ = State::kClosed;
    connection = std::move(connection_);
    session = std::move(session_);
    link = link_;
    if (std::exchange(pending_, false)) node_->HelloEnded();
    if (timer_.value != 0) node_->clock().CancelTimer(timer_);
  }
  if (was_ready) {
    session->OnBulkClosed(link, why);
  } else if (dialler_ && session != nullptr) {
    node_->BulkDialFailed(session);
  }
  node_->LinkClosed();
}

}  // namespace gradwire::rpc
