// Session: the callee's side of calls.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/session.h"

namespace gradwire::rpc {
namespace {

// The reply function of one call. Dropped unused, it answers for the handler that forgot.
class Replier {
 public:
  explicit Replier(std::shared_ptr<IncomingCall> call) : call_(std::move(call)) {}
  Replier(Replier&&) noexcept = default;
  Replier& operator=(Replier&&) = delete;
  ~Replier() {
    if (call_ == nullptr || call_->replied()) return;
    Send(absl::InternalError(absl::StrCat("function ", call_->function(),
                                          " ended without a result (its reply was dropped)")));
  }

  void operator()(absl::StatusOr<Payload> outcome) { Send(std::move(outcome)); }

 private:
  void Send(absl::StatusOr<Payload> outcome) {
    if (!call_->ClaimReply()) return;
    if (auto session = call_->session().lock()) session->Reply(call_, std::move(outcome));
  }
  std::shared_ptr<IncomingCall> call_;
};

}  // namespace

const Session::PeerFunction* Session::PeerFunctionLocked(const ItemView& item,
                                                         absl::Status* refusal) {
  auto found = peer_functions_.find(item.function);
  if (found != peer_functions_.end()) return &found->second;
  if (item.function_name.empty()) {
    *refusal = absl::InvalidArgumentError(
        absl::StrCat("function number ", item.function, " was never given a name in this session"));
    return nullptr;
  }
  if (peer_functions_.size() >= env_->limits.max_function_count) {
    *refusal = absl::ResourceExhaustedError(absl::StrCat(
        "the session named ", peer_functions_.size(), " functions already (max_function_count)"));
    return nullptr;
  }
  PeerFunction entry;
  if (absl::Status named = CheckName("function name", item.function_name); !named.ok()) {
    entry.refusal = named;
  } else {
    entry.function = env_->functions->Find(item.function_name);
    if (entry.function == nullptr) {
      entry.refusal = env_->functions->Unknown(item.function_name);
    } else if (entry.function->declaration != item.declaration) {
      entry.refusal = absl::InvalidArgumentError(absl::StrCat(
          "function ", item.function_name, " is declared ", entry.function->declaration, " by ",
          env_->self, " (", entry.function->place, ") and ", item.declaration, " by the caller ",
          peer_name_, "; both must include the same header"));
      entry.function = nullptr;
    }
  }
  return &peer_functions_.emplace(item.function, std::move(entry)).first->second;
}

void Session::OnRequestLocked(const ItemView& item, Todo& todo) {
  ++env_->stats.calls_received;
  const int kind = item.nested ? 1 : 0;
  absl::Status refusal;
  const PeerFunction* function = PeerFunctionLocked(item, &refusal);
  if (function != nullptr && function->function == nullptr) refusal = function->refusal;

  const bool repeated =
      item.call < peer_finished_below_ || item.call == 0 || arrived_.Contains(item.call);
  if (repeated) {
    // Sent twice by a peer that numbers its items itself. One that still runs answers once, for
    // both.
    if (serving_.contains(item.call)) return;
    if (item.call < peer_finished_below_ || !refusal.ok() || !function->function->repeatable) {
      refusal = absl::FailedPreconditionError(
          absl::StrCat("call ", item.call, " was answered before; it doesn't run twice"));
    }
  } else {
    arrived_.Insert(item.call);
    if (arrived_.run_count() > 2 * env_->limits.max_waiting_count) {
      todo.violation = absl::ResourceExhaustedError(
          absl::StrCat(peer_name_, " left ", arrived_.run_count(), " gaps between its calls"));
      return;
    }
  }
  ++requests_count_[kind];
  if (refusal.ok() && requests_count_[kind] > announced_limit_[kind]) {
    refusal = absl::ResourceExhaustedError(absl::StrCat(requests_count_[kind], " calls came, ",
                                                        announced_limit_[kind],
                                                        " were admitted (call_window)"));
  }
  if (refusal.ok() && kept_bytes_ > env_->limits.max_kept_bytes) {
    refusal = absl::ResourceExhaustedError(
        absl::StrCat(kept_bytes_, " bytes of results wait to be fetched (max_kept_bytes)"));
  }
  if (refusal.ok() && item.timeout_us == 0) {
    refusal = absl::InvalidArgumentError("a call without a deadline");
  }
  if (!refusal.ok()) {
    AbandonLocked(item, todo);
    ++started_count_[kind];
    RefuseLocked(item.call, std::move(refusal));
    return;
  }
  const absl::Time now = env_->clock->Now();
  const uint64_t max_us = static_cast<uint64_t>(env_->limits.max_timeout / absl::Microseconds(1));
  const absl::Time deadline =
      now + absl::Microseconds(static_cast<int64_t>(std::min(item.timeout_us, max_us)));
  auto call = std::make_shared<IncomingCall>(
      weak_from_this(), peer_, item.call,
      std::shared_ptr<const BoundFunction>(env_->functions, function->function), deadline);
  call->nested = item.nested;
  if (absl::Status staged = StageLocked(item, item.call, call->arguments); !staged.ok()) {
    AbandonLocked(item, todo);
    ++started_count_[kind];
    RefuseLocked(item.call, std::move(staged));
    return;
  }
  serving_.emplace(item.call, call);
  // Inline calls whose bytes are here run at once: no timer could be in time for them.
  if (call->arguments.missing_count > 0 || function->function->run != Run::kInline) {
    served_deadlines_.emplace_back(deadline, item.call);
    std::push_heap(served_deadlines_.begin(), served_deadlines_.end(), std::greater<>());
    if (served_deadlines_.size() > 64 && served_deadlines_.size() > 2 * serving_.size()) {
      std::erase_if(served_deadlines_, [this](const Deadline& d) GW_NO_THREAD_SAFETY_ANALYSIS {
        return !serving_.contains(d.second);
      });
      std::make_heap(served_deadlines_.begin(), served_deadlines_.end(), std::greater<>());
    }
    ArmTimerLocked(deadline);
  }
  if (call->arguments.missing_count == 0) ReadyLocked(call, todo);
}

void Session::ReadyLocked(const std::shared_ptr<IncomingCall>& call, Todo& todo) {
  call->state = IncomingCall::State::kReady;
  ready_.push_back(call);
  StartReadyLocked(todo);
}

void Session::StartReadyLocked(Todo& todo) {
  while (!ready_.empty() && running_count_ < env_->limits.max_running_count) {
    std::shared_ptr<IncomingCall> call = std::move(ready_.front());
    ready_.pop_front();
    if (call->state != IncomingCall::State::kReady) continue;
    call->counted_running = true;
    ++running_count_;
    auto& where = call->bound()->run == Run::kInline ? todo.run_inline : todo.post;
    where.push_back(std::move(call));
  }
}

void Session::PostHandler(const std::shared_ptr<IncomingCall>& call) {
  absl::Status posted = env_->executor->Post([call] {
    if (auto session = call->session().lock()) session->RunHandler(call);
  });
  if (!posted.ok() && call->ClaimReply()) Reply(call, posted);
}

void Session::RunHandler(const std::shared_ptr<IncomingCall>& call) {
  ReceivedPayload arguments;
  Todo todo;
  bool run = true;
  {
    MutexLock lock(mu_);
    if (call->state != IncomingCall::State::kReady || state_ == State::kBuried) return;
    if (env_->clock->Now() >= call->deadline()) {
      run = false;
    } else {
      call->state = IncomingCall::State::kRunning;
      arguments = std::move(call->arguments.payload);
      ReturnCreditLocked(*call);
      ++env_->stats.handlers_started;
      WantWriteLocked(todo);
    }
  }
  Finish(todo);
  if (!run) {
    if (call->ClaimReply()) {
      Reply(call, absl::DeadlineExceededError("the deadline passed before a thread was free"));
    }
    return;
  }
  ScopedIncomingCall current(call.get());
  // An inline function may not block wherever it runs, so that it fails always or never.
  std::optional<ScopedThreadRole> role;
  if (call->bound()->run == Run::kInline) role.emplace(ThreadRole::kPolling);
  call->bound()->handler(call, std::move(arguments), Replier(call));
}

void Session::ReturnCreditLocked(IncomingCall& call) {
  if (call.credit_returned) return;
  call.credit_returned = true;
  const int kind = call.nested ? 1 : 0;
  ++started_count_[kind];
  const uint64_t window = kind == 1 ? env_->limits.nested_call_window : env_->limits.call_window;
  // The peer learns of new credit with whatever frame goes next, at the latest when half is used
  // up.
  if (started_count_[kind] + window >= announced_limit_[kind] + (window + 1) / 2) {
    force_frame_ = true;
  }
}

void Session::EndServingLocked(const std::shared_ptr<IncomingCall>& call, Todo& todo) {
  call->state = IncomingCall::State::kReplied;
  ReturnCreditLocked(*call);
  DropTransfersLocked(call->arguments);
  if (call->arguments.staged_bytes > 0) {
    staged_bytes_ -= call->arguments.staged_bytes;
    call->arguments.staged_bytes = 0;
    AckWithheldLocked();
  }
  if (call->counted_running) {
    call->counted_running = false;
    --running_count_;
    StartReadyLocked(todo);
  }
  serving_.erase(call->seq());
}

void Session::RefuseLocked(uint64_t seq, absl::Status why) {
  ++env_->stats.calls_refused;
  OutboxItem item;
  item.kind = ItemKind::kReply;
  item.call = seq;
  item.status = std::move(why);
  AppendItemLocked(std::move(item));
}

void Session::Reply(const std::shared_ptr<IncomingCall>& call, absl::StatusOr<Payload> outcome) {
  Todo todo;
  {
    MutexLock lock(mu_);
    if (state_ == State::kBuried || call->state == IncomingCall::State::kReplied) return;
    const bool refused = call->state != IncomingCall::State::kRunning;
    EndServingLocked(call, todo);
    OutboxItem item;
    item.kind = ItemKind::kReply;
    item.call = call->seq();
    if (outcome.ok()) {
      uint64_t largest = outcome->head.size();
      for (const Buffer& attachment : outcome->attachments) {
        largest = std::max<uint64_t>(largest, attachment.size());
      }
      if (largest > env_->limits.max_tensor_bytes) {
        outcome = absl::ResourceExhaustedError(
            absl::StrCat("the result has a part of ", largest,
                         " bytes, the limit max_tensor_bytes is ", env_->limits.max_tensor_bytes));
      }
    }
    if (outcome.ok()) {
      item.kept_bytes = outcome->size_bytes();
      absl::InlinedVector<uint64_t, 2> transfers;
      PlaceBytesLocked(TransferClass::kReply, *std::move(outcome), item, transfers);
      if (!transfers.empty()) {
        SweepReplyTransfersLocked();
        reply_transfers_[call->seq()] = std::move(transfers);
        todo.write_bulk = bulk_connection_;
      }
    } else {
      item.status = outcome.status();
    }
    ++(refused ? env_->stats.calls_refused : env_->stats.replies_sent);
    AppendItemLocked(std::move(item));
    WantWriteLocked(todo);
  }
  Finish(todo);
}

// Entries whose transfers have all been acknowledged are swept out when they are most.
void Session::SweepReplyTransfersLocked() {
  if (reply_transfers_.size() < 64 || reply_transfers_.size() < 2 * outgoing_.count()) return;
  for (auto entry = reply_transfers_.begin(); entry != reply_transfers_.end();) {
    const auto& ids = entry->second;
    const bool over = std::none_of(
        ids.begin(), ids.end(),
        [this](uint64_t id) GW_NO_THREAD_SAFETY_ANALYSIS { return outgoing_.Contains(id); });
    entry = over ? reply_transfers_.erase(entry) : std::next(entry);
  }
}

void Session::OnCancelLocked(uint64_t seq, Todo& todo) {
  if (const auto sent = reply_transfers_.find(seq); sent != reply_transfers_.end()) {
    for (uint64_t transfer : sent->second) outgoing_.Drop(transfer);
    reply_transfers_.erase(sent);
  }
  const auto found = serving_.find(seq);
  if (found == serving_.end()) return;
  const std::shared_ptr<IncomingCall> call = found->second;
  todo.cancel.push_back(call);
  if (call->state == IncomingCall::State::kRunning) return;
  // It has not started and won't; the caller expects no reply.
  if (call->ClaimReply()) EndServingLocked(call, todo);
}

void Session::ExpireServedLocked(absl::Time now, Todo& todo) {
  while (!served_deadlines_.empty() && served_deadlines_.front().first <= now) {
    const uint64_t seq = served_deadlines_.front().second;
    std::pop_heap(served_deadlines_.begin(), served_deadlines_.end(), std::greater<>());
    served_deadlines_.pop_back();
    const auto found = serving_.find(seq);
    if (found == serving_.end()) continue;
    const std::shared_ptr<IncomingCall> call = found->second;
    todo.cancel.push_back(call);
    if (call->state == IncomingCall::State::kRunning || !call->ClaimReply()) continue;
    const bool staging = call->state == IncomingCall::State::kStaging;
    EndServingLocked(call, todo);
    RefuseLocked(seq, absl::DeadlineExceededError(
                          staging ? "the deadline passed before all argument bytes had arrived"
                                  : "the deadline passed before a thread was free"));
    WantWriteLocked(todo);
  }
}

}  // namespace gradwire::rpc
