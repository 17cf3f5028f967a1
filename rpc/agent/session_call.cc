// Session: the caller's side of calls.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/session.h"

namespace gradwire::rpc {

uint64_t Session::StartCall(const FunctionId* function, Payload arguments,
                            const CallOptions& options, ReplyCallback done) {
  Todo todo;
  uint64_t seq = 0;
  const AgentLimits& limits = env_->limits;
  {
    MutexLock lock(mu_);
    const absl::Time now = env_->clock->Now();
    OutgoingCall call;
    call.function = function;
    call.done = std::move(done);
    call.started = now;
    call.nested = CurrentIncomingCall() != nullptr;
    ++env_->stats.calls_started;
    seq = ++last_call_;
    const int kind = call.nested ? 1 : 0;
    const absl::Duration timeout = options.timeout == absl::ZeroDuration()
                                       ? limits.default_timeout
                                       : std::min(options.timeout, limits.max_timeout);
    absl::Status refused;
    uint64_t largest = arguments.head.size();
    for (const Buffer& attachment : arguments.attachments) {
      largest = std::max<uint64_t>(largest, attachment.size());
    }
    if (state_ == State::kBuried) {
      refused = buried_why_;
    } else if (timeout <= absl::ZeroDuration()) {
      refused = absl::InvalidArgumentError(
          absl::StrCat("a timeout of ", absl::FormatDuration(timeout), " is not positive"));
    } else if (largest > limits.max_tensor_bytes) {
      refused = absl::ResourceExhaustedError(absl::StrCat("an argument has ", largest,
                                                          " bytes, the limit max_tensor_bytes is ",
                                                          limits.max_tensor_bytes));
    } else if (waiting_[0].size() + waiting_[1].size() >= limits.max_waiting_count) {
      refused = absl::ResourceExhaustedError(absl::StrCat(
          waiting_[0].size() + waiting_[1].size(), " calls wait here already (max_waiting_count)"));
    }
    if (!refused.ok()) {
      ++env_->stats.calls_ended;
      todo.done.push_back({std::move(call.done), ExplainLocked(call, refused, "")});
    } else {
      call.deadline = now + timeout;
      call.arguments = std::move(arguments);
      call_deadlines_.emplace_back(call.deadline, seq);
      std::push_heap(call_deadlines_.begin(), call_deadlines_.end(), std::greater<>());
      // Entries of calls that ended are swept out when they are most of the heap.
      if (call_deadlines_.size() > 64 && call_deadlines_.size() > 2 * (calls_.size() + 1)) {
        std::erase_if(call_deadlines_, [this](const Deadline& d) GW_NO_THREAD_SAFETY_ANALYSIS {
          return d.second != last_call_ && calls_.find(d.second) == calls_.end();
        });
        std::make_heap(call_deadlines_.begin(), call_deadlines_.end(), std::greater<>());
      }
      ArmTimerLocked(call.deadline);
      OutgoingCall& kept = calls_.emplace_hint(calls_.end(), seq, std::move(call))->second;
      if (waiting_[kind].empty() && state_ != State::kOpening && HasCreditLocked(kept.nested)) {
        AppendRequestLocked(seq, kept);
        HoldOrWriteLocked(now, todo);
        if (!kept.transfers.empty()) todo.write_bulk = bulk_connection_;
      } else {
        if (state_ != State::kOpening) kept.phase = CallPhase::kAwaitingCredit;
        waiting_[kind].push_back(seq);
      }
    }
  }
  Finish(todo);
  return seq;
}

bool Session::HasCreditLocked(bool nested) const {
  return admitted_count_[nested] < call_limit_[nested] ||
         (nested && admitted_count_[0] < call_limit_[0]);
}

void Session::AdmitWaitingLocked() {
  if (state_ == State::kOpening || state_ == State::kBuried) return;
  // Nested calls first: somebody's handler waits for them.
  for (int kind : {1, 0}) {
    while (!waiting_[kind].empty()) {
      const uint64_t seq = waiting_[kind].front();
      const auto found = calls_.find(seq);
      if (found == calls_.end()) {  // cancelled or expired meanwhile
        waiting_[kind].pop_front();
        continue;
      }
      if (!HasCreditLocked(kind == 1)) {
        // What waits from the time before the connection is now waiting for credit.
        for (uint64_t waiting : waiting_[kind]) {
          const auto call = calls_.find(waiting);
          if (call == calls_.end()) continue;
          if (call->second.phase != CallPhase::kConnecting) break;
          call->second.phase = CallPhase::kAwaitingCredit;
        }
        break;
      }
      waiting_[kind].pop_front();
      AppendRequestLocked(seq, found->second);
    }
  }
}

void Session::AppendRequestLocked(uint64_t seq, OutgoingCall& call) {
  // A nested call draws on the normal credit when its reserve is used up.
  bool nested = call.nested;
  if (nested && admitted_count_[1] >= call_limit_[1]) nested = false;
  ++admitted_count_[nested];
  OutboxItem item;
  item.kind = ItemKind::kRequest;
  item.call = seq;
  item.nested = nested;
  item.deadline = call.deadline;
  if (function_numbers_.size() <= call.function->index) {
    function_numbers_.resize(call.function->index + 1, 0);
  }
  uint32_t& number = function_numbers_[call.function->index];
  if (number == 0) {
    number = ++last_function_number_;
    item.introduces = call.function;
  }
  item.function = number;
  PlaceBytesLocked(TransferClass::kRequest, std::move(call.arguments), item, call.transfers);
  call.arguments = Payload();
  call.phase = CallPhase::kSent;
  AppendItemLocked(std::move(item));
}

void Session::CancelCall(uint64_t seq) {
  Todo todo;
  {
    MutexLock lock(mu_);
    const auto found = calls_.find(seq);
    if (found == calls_.end()) return;
    SendCancelLocked(seq);
    EndCallLocked(seq,
                  ExplainLocked(found->second, absl::CancelledError("cancelled by the caller"), ""),
                  todo);
    WantWriteLocked(todo);
  }
  Finish(todo);
}

void Session::SendCancelLocked(uint64_t seq) {
  const auto found = calls_.find(seq);
  if (found == calls_.end() || found->second.phase != CallPhase::kSent) return;
  OutboxItem item;
  item.kind = ItemKind::kCancel;
  item.call = seq;
  AppendItemLocked(std::move(item));
}

uint64_t Session::FinishedBelowLocked() const {
  return calls_.empty() ? last_call_ + 1 : calls_.begin()->first;
}

absl::Status Session::ExplainLocked(const OutgoingCall& call, const absl::Status& cause,
                                    absl::string_view next_action) const {
  const absl::Duration elapsed = env_->clock->Now() - call.started;
  std::string message = absl::StrCat(
      "call ", call.function->name, " to ", peer_name_, " (", CallPhaseName(call.phase), ", after ",
      absl::FormatDuration(absl::Trunc(elapsed, absl::Microseconds(1))), "): ", cause.message());
  if (call.phase == CallPhase::kConnecting && !dial_failure_.ok() && cause != dial_failure_) {
    absl::StrAppend(&message, "; the last attempt to connect: ", dial_failure_.message());
  }
  if (!next_action.empty()) absl::StrAppend(&message, "; ", next_action);
  return absl::Status(cause.code(), message);
}

void Session::EndCallLocked(uint64_t seq, absl::StatusOr<ReceivedPayload> outcome, Todo& todo) {
  const auto found = calls_.find(seq);
  if (found == calls_.end()) return;
  OutgoingCall& call = found->second;
  for (uint64_t transfer : call.transfers) outgoing_.Drop(transfer);
  DropTransfersLocked(call.reply);
  ++env_->stats.calls_ended;
  todo.done.push_back({std::move(call.done), std::move(outcome)});
  calls_.erase(found);
}

void Session::OnReplyLocked(const ItemView& item, Todo& todo) {
  const auto found = calls_.find(item.call);
  if (found == calls_.end() || found->second.answered) {
    AbandonLocked(item, todo);  // cancelled, expired: nobody reads it
    return;
  }
  OutgoingCall& call = found->second;
  call.answered = true;
  // The callee has all it needs of the arguments.
  for (uint64_t transfer : call.transfers) outgoing_.Drop(transfer);
  call.transfers.clear();
  if (item.status_code != 0) {
    AbandonLocked(item, todo);
    absl::Status status(
        static_cast<absl::StatusCode>(item.status_code),
        absl::StrCat(call.function->name, " on ", peer_name_, ": ", item.status_message));
    if (status.ok()) status = absl::UnknownError(status.message());
    EndCallLocked(item.call, std::move(status), todo);
    return;
  }
  if (absl::Status staged = StageLocked(item, item.call, call.reply); !staged.ok()) {
    AbandonLocked(item, todo);
    EndCallLocked(item.call, ExplainLocked(call, staged, ""), todo);
    return;
  }
  CompleteIfWholeLocked(item.call, call, todo);
}

void Session::CompleteIfWholeLocked(uint64_t seq, OutgoingCall& call, Todo& todo) {
  if (!call.answered || call.reply.missing_count > 0) return;
  ReceivedPayload payload = std::move(call.reply.payload);
  call.reply.transfers.clear();
  EndCallLocked(seq, std::move(payload), todo);
}

}  // namespace gradwire::rpc
