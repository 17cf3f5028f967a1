// Session: connections that come and go, time, and the end.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/session.h"

namespace gradwire::rpc {

Session::Session(std::shared_ptr<SessionEnv> env, std::string peer_name,
                 std::weak_ptr<SessionObserver> observer)
    : env_(std::move(env)),
      peer_name_(std::move(peer_name)),
      observer_(std::move(observer)),
      resend_after_(env_->limits.resend_timeout),
      outgoing_(env_->limits.chunk_bytes, env_->limits.transfer_window_bytes) {}

Session::~Session() {
  MutexLock lock(mu_);
  if (timer_.value != 0) env_->clock->CancelTimer(timer_);
}

uint64_t Session::Attach(Attachment attachment) {
  Todo todo;
  uint64_t link = 0;
  {
    MutexLock lock(mu_);
    if (state_ == State::kBuried) return 0;
    // A dial of ours that was accepted late doesn't replace what the peer's dial has opened here:
    // the peer has taken that one. (The other way round it may, see NodeImpl::JudgeLocked.)
    const bool is_new = state_ == State::kOpening ||
                        (attachment.id != id_ && !attachment.dialled_here && UntouchedLocked());
    if (!is_new && attachment.id != id_) return 0;
    if (attachment.peer_seen >= outbox_first_ + outbox_.size()) {
      return 0;  // claims items that never existed
    }
    const absl::Time now = env_->clock->Now();
    if (connection_ != nullptr) {
      todo.close.emplace_back(std::move(connection_),
                              absl::UnavailableError("replaced by a newer connection"));
    }
    if (is_new) {
      id_ = attachment.id;
      peer_ = std::make_shared<const PeerIdentity>(attachment.peer);
      session_key_ = std::move(attachment.session_key);
      dialled_here_ = attachment.dialled_here;
      ++env_->stats.sessions_opened;
    } else {
      ++env_->stats.sessions_resumed;
    }
    dial_failure_ = absl::OkStatus();
    connection_ = attachment.connection;
    link = link_ = ++last_link_;
    state_ = State::kAttached;
    detached_at_ = absl::InfiniteFuture();
    last_received_ = now;
    heartbeat_at_ = now + env_->limits.heartbeat;
    AckLocked(attachment.peer_seen, now);
    next_send_ = 0;  // what the peer has not seen goes again
    progress_at_ = now;
    resend_after_ = env_->limits.resend_timeout;
    gap_ = false;
    // The first frame also tells the peer how many calls are admitted here.
    force_frame_ = true;
    AdmitWaitingLocked();
    WantWriteLocked(todo);
    ArmTimerLocked(NextWakeLocked());
  }
  Finish(todo);
  return link;
}

void Session::NoteDialFailure(const absl::Status& why) {
  MutexLock lock(mu_);
  dial_failure_ = why;
}

void Session::OnLinkClosed(uint64_t link, const absl::Status& why) {
  std::shared_ptr<Connection> bulk;
  {
    MutexLock lock(mu_);
    if (link == 0 || link != link_) return;
    DetachLocked(env_->clock->Now());
    // What took the control lane may have taken the bulk lane without a word; a new one costs
    // little.
    bulk = bulk_connection_;
  }
  if (bulk != nullptr) bulk->Close(absl::UnavailableError("the control lane was lost"));
  if (auto observer = observer_.lock()) observer->OnDetached(shared_from_this(), why);
}

void Session::DetachLocked(absl::Time now) {
  connection_ = nullptr;
  link_ = 0;
  if (state_ != State::kAttached) return;
  state_ = State::kDetached;
  detached_at_ = now;
  ArmTimerLocked(NextWakeLocked());
}

void Session::Bury(const absl::Status& why, bool say_goodbye) {
  BuryIf(std::nullopt, why, say_goodbye);
}

void Session::BuryUnlessReached(SessionId tried, const absl::Status& why) {
  BuryIf(tried, why, /*say_goodbye=*/false);
}

void Session::BuryIf(const std::optional<SessionId>& unreached, const absl::Status& why,
                     bool say_goodbye) {
  Todo todo;
  std::shared_ptr<Connection> last_word;
  {
    MutexLock lock(mu_);
    if (state_ == State::kBuried) return;
    if (unreached && state_ != State::kOpening &&
        (state_ != State::kDetached || id_ != *unreached)) {
      return;
    }
    state_ = State::kBuried;
    buried_why_ = why;
    ++env_->stats.sessions_buried;
    if (connection_ != nullptr) {
      if (say_goodbye) {
        last_word = connection_;  // WriteFrame writes the goodbye
      } else {
        todo.close.emplace_back(connection_, why);
      }
    }
    if (!say_goodbye) {
      connection_ = nullptr;
      link_ = 0;
    }
    if (bulk_connection_ != nullptr) todo.close.emplace_back(std::move(bulk_connection_), why);
    bulk_connection_ = nullptr;
    bulk_link_ = 0;
    while (!calls_.empty()) {
      const uint64_t seq = calls_.begin()->first;
      const OutgoingCall& call = calls_.begin()->second;
      EndCallLocked(seq, ExplainLocked(call, why, ""), todo);
    }
    for (auto& [seq, call] : serving_) {
      if (call->state != IncomingCall::State::kReplied) todo.cancel.push_back(call);
    }
    serving_.clear();
    ready_.clear();
    running_count_ = 0;
    outbox_.clear();
    next_send_ = 0;
    for (auto& waiting : waiting_) waiting.clear();
    outgoing_.Clear();
    incoming_.Clear();
    reply_transfers_.clear();
    call_deadlines_.clear();
    served_deadlines_.clear();
    withheld_.clear();
    staged_bytes_ = 0;
    kept_bytes_ = 0;
    if (timer_.value != 0) env_->clock->CancelTimer(timer_);
    timer_ = TimerId{};
    timer_at_ = absl::InfiniteFuture();
  }
  Finish(todo);
  if (last_word != nullptr) last_word->CloseAfterWrites(why, absl::Seconds(1));
  if (auto observer = observer_.lock()) observer->OnBuried(shared_from_this(), why);
}

// ---- time ----

void Session::ArmTimerLocked(absl::Time at) {
  if (at >= timer_at_ || state_ == State::kBuried) return;
  if (timer_.value != 0) env_->clock->CancelTimer(timer_);
  timer_at_ = at;
  timer_ = env_->clock->CallAt(at, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->OnTimer();
  });
}

absl::Time Session::NextWakeLocked() {
  absl::Time at = absl::InfiniteFuture();
  if (!call_deadlines_.empty()) at = std::min(at, call_deadlines_.front().first);
  if (!served_deadlines_.empty()) at = std::min(at, served_deadlines_.front().first);
  if (state_ == State::kDetached) at = std::min(at, detached_at_ + env_->limits.resume_window);
  if (state_ == State::kAttached) {
    at = std::min({at, ack_due_, hold_until_});
    at = std::min(at, last_received_ + env_->limits.liveness_timeout);
    at = std::min(at, heartbeat_at_);
    if (next_send_ > 0) at = std::min(at, progress_at_ + resend_after_);
    for (const auto& [id, transfer] : incoming_.all()) {
      if (!transfer->complete() && transfer->described) {
        at = std::min(at, transfer->progress_at + env_->limits.resend_timeout);
      }
    }
  }
  return at;
}

void Session::OnTimer() {
  Todo todo;
  absl::Status bury;
  {
    MutexLock lock(mu_);
    timer_ = TimerId{};
    timer_at_ = absl::InfiniteFuture();
    if (state_ == State::kBuried) return;
    const absl::Time now = env_->clock->Now();

    while (!call_deadlines_.empty() && call_deadlines_.front().first <= now) {
      const uint64_t seq = call_deadlines_.front().second;
      std::pop_heap(call_deadlines_.begin(), call_deadlines_.end(), std::greater<>());
      call_deadlines_.pop_back();
      const auto found = calls_.find(seq);
      if (found == calls_.end()) continue;
      const absl::Status late = ExplainLocked(
          found->second, absl::DeadlineExceededError("no reply within the call's deadline"),
          found->second.phase == CallPhase::kSent
              ? "it may have run; raise the timeout or look at the callee's load"
              : "it was never sent");
      SendCancelLocked(seq);
      EndCallLocked(seq, late, todo);
    }
    ExpireServedLocked(now, todo);

    if (state_ == State::kDetached && now >= detached_at_ + env_->limits.resume_window) {
      bury = absl::UnavailableError(absl::StrCat("the connection to ", peer_name_,
                                                 " was lost and did not come back within ",
                                                 absl::FormatDuration(env_->limits.resume_window)));
    }
    if (state_ == State::kAttached) {
      if (now >= last_received_ + env_->limits.liveness_timeout) {
        todo.close.emplace_back(
            connection_, absl::UnavailableError(
                             absl::StrCat("no sign of life from ", peer_name_, " for ",
                                          absl::FormatDuration(env_->limits.liveness_timeout))));
        last_received_ = now;  // once; the close follows
      }
      if (hold_until_ <= now) {
        hold_until_ = absl::InfiniteFuture();
        WantWriteLocked(todo);
      }
      if (ack_due_ <= now) {
        ack_due_ = absl::InfiniteFuture();
        if (unacked_in_count_ > 0) WantFrameLocked(todo);
      }
      if (now >= heartbeat_at_) {
        // Also when the write has to wait: asked again later, not in a loop.
        heartbeat_at_ = now + env_->limits.heartbeat;
        WantFrameLocked(todo);
      }
      if (next_send_ > 0 && now >= progress_at_ + resend_after_) {
        next_send_ = 0;
        progress_at_ = now;
        resend_after_ =
            std::min(resend_after_ * 2, std::max(env_->limits.resend_timeout, absl::Seconds(1)));
        ++env_->stats.resends;
        WantFrameLocked(todo);
      }
      bool awaited = false;
      for (const auto& [id, transfer] : incoming_.all()) {
        if (transfer->complete() || !transfer->described) continue;
        awaited = true;
        if (now < transfer->progress_at + env_->limits.resend_timeout) continue;
        transfer->progress_at = now;
        // Without a bulk lane nothing can come; the next one starts from what is here.
        if (bulk_link_ != 0 && MayAckLocked(*transfer)) {
          ++env_->stats.chunk_restarts;
          SendReceivedLocked(id, transfer->received_bytes, /*resend=*/true);
          WantWriteLocked(todo);
        }
      }
      if (awaited && bulk_connection_ != nullptr &&
          now >= bulk_received_ + env_->limits.liveness_timeout) {
        bulk_received_ = now;
        todo.close.emplace_back(bulk_connection_,
                                absl::UnavailableError("nothing comes on the bulk lane"));
      }
    }
    ArmTimerLocked(NextWakeLocked());
  }
  Finish(todo);
  if (!bury.ok()) Bury(bury, /*say_goodbye=*/false);
}

void Session::Finish(Todo& todo) {
  for (auto& [connection, why] : todo.close) connection->Close(why);
  if (todo.write != nullptr) todo.write->WantWrite();
  if (todo.write_bulk != nullptr) todo.write_bulk->WantWrite();
  for (Todo::Done& done : todo.done) done.callback(std::move(done.outcome));
  for (const auto& call : todo.cancel) call->Cancel();
  for (const auto& call : todo.post) PostHandler(call);
  if (!todo.run_inline.empty()) {
    // A thread that only helps while it waits runs nobody's handler.
    const bool here = CurrentThreadRole() != ThreadRole::kDriving;
    for (const auto& call : todo.run_inline) here ? RunHandler(call) : PostHandler(call);
  }
  if (!todo.violation.ok()) Bury(todo.violation, /*say_goodbye=*/true);
}

// ---- state ----

std::shared_ptr<WaitDriver> Session::wait_driver() {
  Todo todo;
  std::shared_ptr<WaitDriver> driver;
  {
    MutexLock lock(mu_);
    if (connection_ != nullptr) driver = connection_->wait_driver();
    if (hold_until_ < absl::InfiniteFuture()) WantWriteLocked(todo);
  }
  Finish(todo);
  return driver;
}

Session::State Session::state() const {
  MutexLock lock(mu_);
  return state_;
}
SessionId Session::id() const {
  MutexLock lock(mu_);
  return id_;
}
Incarnation Session::peer_incarnation() const {
  MutexLock lock(mu_);
  return peer_ == nullptr ? Incarnation{} : peer_->incarnation;
}
bool Session::dialled_here() const {
  MutexLock lock(mu_);
  return dialled_here_;
}
uint64_t Session::seen() const {
  MutexLock lock(mu_);
  return seen_;
}
std::string Session::session_key() const {
  MutexLock lock(mu_);
  return session_key_;
}
std::vector<ReceivedProgress> Session::BulkProgress() const {
  MutexLock lock(mu_);
  return incoming_.Progress();
}
bool Session::has_bulk() const {
  MutexLock lock(mu_);
  return bulk_link_ != 0;
}
bool Session::untouched() const {
  MutexLock lock(mu_);
  return UntouchedLocked();
}
size_t Session::calls_in_flight() const {
  MutexLock lock(mu_);
  return calls_.size();
}
size_t Session::handlers_in_flight() const {
  MutexLock lock(mu_);
  size_t count = 0;
  for (const auto& [seq, call] : serving_) {
    if (call->state != IncomingCall::State::kReplied) ++count;
  }
  return count;
}

}  // namespace gradwire::rpc
