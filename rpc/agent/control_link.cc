#include "rpc/agent/control_link.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"

namespace gradwire::rpc {
namespace {
// How long a last word may take to leave.
constexpr absl::Duration kLinger = absl::Seconds(1);

// The acceptor's side of a hello that came to nothing; the dialler has it as a status. Dial races
// and sessions that are over are no trouble.
void LogRefusal(const Hello& hello, const std::string& from, const absl::Status& why) {
  if (absl::IsAborted(why) || hello.resume) return;
  GW_LOG_EVERY_KEY(WARNING, absl::Seconds(10), hello.name)
      << "no session with an agent that dialled" << Kv("agent", Escaped(hello.name))
      << Kv("from", Escaped(from)) << Kv("why", std::string(why.message()));
}
}  // namespace

ControlLink::ControlLink(std::shared_ptr<NodeImpl> node, std::shared_ptr<Session> session,
                         Hello hello)
    : node_(std::move(node)),
      dialler_(true),
      session_(std::move(session)),
      hello_(std::move(hello)),
      due_(Due::kHello) {}

ControlLink::ControlLink(std::shared_ptr<NodeImpl> node)
    : node_(std::move(node)), dialler_(false) {}

void ControlLink::Start(std::shared_ptr<Connection> connection) {
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    connection_ = connection;
    const AgentLimits& limits = node_->limits();
    const absl::Duration time = dialler_ ? limits.handshake_timeout : limits.hello_timeout;
    timer_ = node_->clock().CallAfter(time, [weak = weak_from_this(), time] {
      if (auto self = weak.lock()) {
        {
          MutexLock lock(self->mu_);
          self->timer_ = TimerId{};
          if (self->state_ != State::kHello && self->state_ != State::kProof) return;
        }
        self->CloseConnection(absl::DeadlineExceededError(
            absl::StrCat("the hello was not finished within ", absl::FormatDuration(time))));
      }
    });
  }
  if (dialler_) connection->WantWrite();
}

void ControlLink::WriteDueLocked(BufferList& out) {
  FrameWriter writer;
  writer.Begin(FrameHead());
  switch (std::exchange(due_, Due::kNothing)) {
    case Due::kNothing:
      break;
    case Due::kHello:
      writer.SetHello(hello_);
      break;
    case Due::kReply:
      writer.SetHelloReply(reply_);
      break;
    case Due::kDone:
      done_written_ = node_->clock().Now();
      writer.SetHelloDone(MakeHelloDone(node_->self(), hello_, reply_));
      break;
    case Due::kGoodbye:
      writer.SetGoodbye(
          {static_cast<uint32_t>(refused_->code()), std::string(refused_->message())});
      break;
  }
  writer.Finish(out);
}

bool ControlLink::NextMessage(BufferList& out) {
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return false;
    // On a wire that loses messages the proof is repeated until the peer has answered.
    if (state_ == State::kReady && dialler_ && !confirmed_ &&
        node_->clock().Now() >= done_written_ + node_->limits().resend_timeout) {
      due_ = Due::kDone;
    }
    if (due_ != Due::kNothing) {
      WriteDueLocked(out);
      return true;
    }
    if (state_ != State::kReady) return false;
    session = session_;
    link = link_;
  }
  return session->WriteFrame(link, out);
}

void ControlLink::OnMessage(BufferList message) {
  // What follows is no part of the handler that waits on this thread, if one does.
  const ScopedIncomingCall none(nullptr);
  const Buffer whole = message.Flatten();  // frame_ shows it: it stays until all is handled
  State state;
  {
    MutexLock lock(mu_);
    state = state_;
  }
  // Before the hello nobody can make us unpack items.
  const size_t max_items = state == State::kHello ? 0 : FrameLimits::kItems;
  if (absl::Status parsed = ParseFrame(whole, frame_, max_items); !parsed.ok()) {
    CloseConnection(parsed);
    return;
  }
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  {
    MutexLock lock(mu_);
    state = state_;
    if (state == State::kReady) {
      session = session_;
      link = link_;
      confirmed_ = true;
    }
  }
  switch (state) {
    case State::kClosed:
      return;
    case State::kReady:
      // A repeated message of the hello is old news.
      if (frame_.hello || frame_.hello_reply || frame_.hello_done) return;
      session->OnFrame(link, frame_);
      return;
    case State::kHello:
      if (!dialler_ && frame_.hello) return OnHello(*frame_.hello);
      if (dialler_ && frame_.hello_reply) return OnHelloReply(*frame_.hello_reply);
      break;
    case State::kProof:
      if (frame_.hello_done) return OnHelloDone(*frame_.hello_done);
      if (frame_.goodbye) return OnHelloGoodbye(*frame_.goodbye);
      // The hello again, or items that overtook the proof: the peer will send them again.
      frame_ = FrameView();  // a stranger's items take no memory while we wait
      return;
  }
  if (frame_.goodbye) {
    CloseConnection(absl::UnavailableError(
        absl::StrCat("the peer ended the hello: ", frame_.goodbye->status_message)));
    return;
  }
  CloseConnection(absl::InvalidArgumentError("the first message must be a hello"));
}

void ControlLink::OnHello(const Hello& hello) {
  absl::Status refusal = CheckHello(node_->self(), hello);
  uint64_t seen = 0;
  if (refusal.ok()) refusal = node_->AdmitHello(hello, &seen);
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    if (state_ != State::kHello) return;
    hello_ = hello;
    reply_ = MakeHelloReply(node_->self(), hello, refusal, seen, node_->rng());
    due_ = Due::kReply;
    state_ = State::kProof;
    connection = connection_;
  }
  if (connection == nullptr) return;
  if (refusal.ok()) {
    connection->WantWrite();
  } else {
    ++node_->env().stats.hellos_refused;
    LogRefusal(hello, connection->peer_address(), refusal);
    connection->CloseAfterWrites(refusal, kLinger);
  }
}

void ControlLink::OnHelloReply(const HelloReply& reply) {
  Hello hello;
  std::shared_ptr<Session> session;
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    hello = hello_;
    session = session_;
    connection = connection_;
  }
  absl::Status accepted = CheckHelloReply(node_->self(), hello, reply);
  uint64_t link = 0;
  bool say_why = false;
  if (accepted.ok()) {
    {
      // Before the session attaches: it wants to write at once, and the proof goes first.
      MutexLock lock(mu_);
      reply_ = reply;
      due_ = Due::kDone;
    }
    link = node_->DialAccepted(session, hello, reply, connection);
    if (link == 0) accepted = absl::AbortedError("another connection to the peer was faster");
  }
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    if (accepted.ok()) {
      state_ = State::kReady;
      link_ = link;
      if (std::exchange(pending_, false)) node_->HelloEnded();
    } else {
      refused_ = accepted;
      if (reply.status_code != 0) refused_by_ = Incarnation{reply.incarnation};
      // It took us and we don't take it: it should know why.
      say_why = reply.status_code == 0 && !absl::IsAborted(accepted);
      if (say_why) due_ = Due::kGoodbye;
    }
  }
  if (accepted.ok()) {
    connection->WantWrite();
  } else if (say_why && connection != nullptr) {
    connection->CloseAfterWrites(accepted, kLinger);
  } else {
    CloseConnection(accepted);
  }
}

void ControlLink::OnHelloDone(const HelloDone& done) {
  Hello hello;
  HelloReply reply;
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    hello = hello_;
    reply = reply_;
    connection = connection_;
  }
  if (reply.status_code != 0) return;  // refused; the end is on its way
  if (absl::Status proved = CheckHelloDone(node_->self(), hello, reply, done); !proved.ok()) {
    ++node_->env().stats.hellos_refused;
    Refuse(proved);
    return;
  }
  absl::StatusOr<NodeImpl::Committed> committed = node_->CommitHello(hello, reply, connection);
  if (!committed.ok()) {
    Refuse(committed.status());
    return;
  }
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    session_ = committed->session;
    link_ = committed->link;
    state_ = State::kReady;
    if (std::exchange(pending_, false)) node_->HelloEnded();
  }
  connection->WantWrite();
}

void ControlLink::OnHelloGoodbye(const Goodbye& goodbye) {
  const absl::Status why =
      absl::UnavailableError(absl::StrCat("it ended the hello: ", goodbye.status_message));
  Hello hello;
  std::string from;
  bool refused = false;
  {
    MutexLock lock(mu_);
    if (connection_ == nullptr) return;
    hello = hello_;
    from = connection_->peer_address();
    refused = reply_.status_code != 0;
  }
  if (!refused) LogRefusal(hello, from, why);
  CloseConnection(why);
}

// A reply that says no after one that said yes.
void ControlLink::Refuse(const absl::Status& why) {
  std::shared_ptr<Connection> connection;
  Hello hello;
  {
    MutexLock lock(mu_);
    if (state_ == State::kClosed) return;
    hello = hello_;
    reply_.status_code = static_cast<uint32_t>(why.code());
    reply_.status_message = std::string(why.message());
    reply_.proof.clear();
    due_ = Due::kReply;
    connection = connection_;
  }
  if (connection == nullptr) return;
  LogRefusal(hello, connection->peer_address(), why);
  connection->CloseAfterWrites(why, kLinger);
}

void ControlLink::CloseConnection(const absl::Status& why) {
  std::shared_ptr<Connection> connection;
  {
    MutexLock lock(mu_);
    if (!refused_) refused_ = why;
    connection = connection_;
  }
  if (connection != nullptr) connection->Close(why);
}

void ControlLink::OnClosed(absl::Status why) {
  const ScopedIncomingCall none(nullptr);  // as in OnMessage
  std::shared_ptr<Connection> connection;
  std::shared_ptr<Session> session;
  uint64_t link = 0;
  bool was_ready = false;
  std::optional<Incarnation> refused_by;
  uint64_t tried = 0;
  {
    MutexLock lock(mu_);
    tried = hello_.session;
    was_ready = state_ == State::kReady;
    state_ = State::kClosed;
    connection = std::move(connection_);
    session = std::move(session_);
    link = link_;
    if (refused_) why = *refused_;
    refused_by = refused_by_;
    if (std::exchange(pending_, false)) node_->HelloEnded();
    if (timer_.value != 0) node_->clock().CancelTimer(timer_);
  }
  if (was_ready) {
    session->OnLinkClosed(link, why);
  } else if (dialler_) {
    node_->DialFailed(session, SessionId{tried}, why, refused_by);
  }
  node_->LinkClosed();
}

}  // namespace gradwire::rpc
