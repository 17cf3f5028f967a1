// Session: numbered items, frames, acknowledgements.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/session.h"

namespace gradwire::rpc {
namespace {
// Items that a batch being processed gathers before they leave (of 16, 32 and all: best at 64 calls
// in flight, and no worse at 1).
constexpr size_t kPartItems = 32;
// With this many calls in flight, and answers that came this recently, a request waits for company:
// until the next frame comes, a caller waits, a part is full, or this long.
constexpr size_t kHoldFromCalls = 16;
constexpr absl::Duration kHoldPatience = absl::Milliseconds(1);
constexpr absl::Duration kHold = absl::Microseconds(100);
// A gap is asked for again after this long; the answer takes a round trip.
constexpr absl::Duration kGapPatience = absl::Milliseconds(5);
// Wire overhead of an item beside its bytes, estimated from above: fields with fixed width and
// tags.
constexpr size_t kItemOverheadBytes = 96;
// A head this large leaves the frame and travels as a transfer.
constexpr size_t kSmallAttachmentBytes = 4u << 10;
}  // namespace

void Session::AppendItemLocked(OutboxItem item) {
  if (state_ == State::kBuried) return;
  kept_bytes_ += item.kept_bytes;
  outbox_.push_back(std::move(item));
}

// Decides what travels in the frame and what on the bulk lane.
void Session::PlaceBytesLocked(TransferClass which, Payload payload, OutboxItem& item,
                               absl::InlinedVector<uint64_t, 2>& transfers) {
  const size_t limit = env_->limits.inline_bytes;
  const bool all_inline = payload.size_bytes() <= limit;
  item.head_bytes = payload.head.size();
  if (item.head_bytes > limit) {
    item.head_transfer = outgoing_.Add(which, std::move(payload.head));
    transfers.push_back(item.head_transfer);
  } else {
    item.head = std::move(payload.head);
  }
  size_t inline_total = item.head.size();
  for (Buffer& attachment : payload.attachments) {
    AttachmentRef ref;
    ref.size_bytes = attachment.size();
    const bool fits =
        attachment.empty() || all_inline ||
        (attachment.size() <= kSmallAttachmentBytes && inline_total + attachment.size() <= limit);
    if (fits) {
      inline_total += attachment.size();
      item.inline_attachments.push_back(std::move(attachment));
    } else {
      ref.transfer = outgoing_.Add(which, std::move(attachment));
      transfers.push_back(ref.transfer);
    }
    item.attachments.push_back(ref);
  }
}

void Session::WantWriteLocked(Todo& todo) {
  if (state_ != State::kAttached) return;
  // A long batch leaves in parts, so that both ends work at the same time.
  if (cork_ > 0 && outbox_.size() - next_send_ < kPartItems) return;
  if (next_send_ < outbox_.size() || force_frame_) todo.write = connection_;
}

void Session::HoldOrWriteLocked(absl::Time now, Todo& todo) {
  const bool answers_flow = calls_.size() >= kHoldFromCalls && now < last_received_ + kHoldPatience;
  if (!answers_flow || outbox_.size() - next_send_ >= kPartItems) return WantWriteLocked(todo);
  if (hold_until_ < absl::InfiniteFuture()) return;
  hold_until_ = now + kHold;
  ArmTimerLocked(hold_until_);
}

void Session::WantFrameLocked(Todo& todo) {
  force_frame_ = true;
  WantWriteLocked(todo);
}

bool Session::WriteFrame(uint64_t link, BufferList& out) {
  MutexLock lock(mu_);
  if (link == 0 || link != link_) return false;
  FrameHead head;
  if (state_ == State::kBuried) {
    link_ = 0;  // nothing follows
    connection_ = nullptr;
    writer_.Begin(head);
    Goodbye goodbye;
    goodbye.status_code = static_cast<uint32_t>(buried_why_.code());
    goodbye.status_message = std::string(buried_why_.message());
    writer_.SetGoodbye(goodbye);
    writer_.Finish(out);
    return true;
  }
  if (state_ != State::kAttached) return false;
  if (next_send_ >= outbox_.size() && !force_frame_) return false;
  const absl::Time now = env_->clock->Now();

  head.seen = seen_;
  head.finished_below = FinishedBelowLocked();
  const uint64_t window[2] = {env_->limits.call_window, env_->limits.nested_call_window};
  for (int nested : {0, 1}) announced_limit_[nested] = started_count_[nested] + window[nested];
  head.call_limit = announced_limit_[0];
  head.nested_call_limit = announced_limit_[1];
  head.resend = std::exchange(gap_, false);
  if (next_send_ < outbox_.size()) {
    if (next_send_ == 0) progress_at_ = now;
    head.first_item = outbox_first_ + next_send_;
  }
  writer_.Begin(head);
  while (next_send_ < outbox_.size()) {
    const OutboxItem& item = outbox_[next_send_];
    size_t size = kItemOverheadBytes + item.head.size();
    for (const Buffer& attachment : item.inline_attachments) size += attachment.size();
    if (writer_.size_bytes() > 64 && writer_.size_bytes() + size > env_->limits.frame_bytes) break;
    ItemHead fields;
    fields.kind = static_cast<uint32_t>(item.kind);
    fields.call = item.call;
    fields.function = item.function;
    fields.nested = item.nested;
    if (item.kind == ItemKind::kRequest) {
      // What is left of the deadline, now; at least 1: the callee decides what is too late.
      fields.timeout_us = static_cast<uint64_t>(
          std::max<int64_t>(1, (item.deadline - now) / absl::Microseconds(1)));
    }
    if (item.introduces != nullptr) {
      fields.function_name = item.introduces->name;
      fields.declaration = item.introduces->declaration;
    }
    fields.status_code = static_cast<uint32_t>(item.status.code());
    fields.status_message = item.status.message();
    fields.head_bytes = item.head_bytes;
    fields.head_transfer = item.head_transfer;
    fields.attachments = item.attachments;
    fields.transfer = item.transfer;
    fields.offset = item.offset;
    fields.resend = item.resend;
    writer_.AddItem(fields, item.head, item.inline_attachments);
    ++next_send_;
  }
  writer_.Finish(out);
  force_frame_ = false;
  hold_until_ = absl::InfiniteFuture();
  unacked_in_count_ = 0;
  ack_due_ = absl::InfiniteFuture();
  heartbeat_at_ = now + env_->limits.heartbeat;
  ArmTimerLocked(progress_at_ + resend_after_);
  return true;
}

void Session::AckLocked(uint64_t seen, absl::Time now) {
  // Only what was written can have been seen.
  const uint64_t written = outbox_first_ + outbox_.size() - 1;
  seen = std::min(seen, written);
  bool any = false;
  while (!outbox_.empty() && outbox_first_ <= seen) {
    kept_bytes_ -= outbox_.front().kept_bytes;
    outbox_.pop_front();
    ++outbox_first_;
    if (next_send_ > 0) --next_send_;
    any = true;
  }
  if (any) {
    progress_at_ = now;
    resend_after_ = env_->limits.resend_timeout;
  }
}

void Session::OnFrame(uint64_t link, const FrameView& frame) {
  Todo todo;
  absl::Status farewell;
  {
    MutexLock lock(mu_);
    if (link == 0 || link != link_ || state_ != State::kAttached) return;
    const absl::Time now = env_->clock->Now();
    last_received_ = now;
    if (frame.goodbye.has_value()) {
      const auto code = static_cast<absl::StatusCode>(frame.goodbye->status_code);
      farewell = absl::Status(
          code == absl::StatusCode::kOk ? absl::StatusCode::kUnavailable : code,
          absl::StrCat(peer_name_, " ended the session: ", frame.goodbye->status_message));
      if (farewell.ok()) farewell = absl::UnavailableError(frame.goodbye->status_message);
    } else {
      const FrameHead& head = frame.head;
      AckLocked(head.seen, now);
      if (head.finished_below > peer_finished_below_) {
        peer_finished_below_ = head.finished_below;
        arrived_.PruneBelow(peer_finished_below_);
      }
      call_limit_[0] = std::max(call_limit_[0], head.call_limit);
      call_limit_[1] = std::max(call_limit_[1], head.nested_call_limit);
      if (head.resend && next_send_ > 0) {
        next_send_ = 0;
        ++env_->stats.resends;
      }
      ++cork_;
      if (!frame.items.empty()) {
        if (head.first_item == 0 || head.first_item > seen_ + 1) {
          ++env_->stats.gaps;
          if (now >= gap_asked_at_ + kGapPatience) {
            gap_asked_at_ = now;
            gap_ = true;
            force_frame_ = true;
          }
        } else {
          uint64_t number = head.first_item;
          for (const ItemView& item : frame.items) {
            if (number++ <= seen_) {
              ++env_->stats.duplicate_items;
              force_frame_ = true;  // so that the sender learns where we are
              continue;
            }
            ++seen_;
            ++unacked_in_count_;
            if (absl::Status bad = OnItemLocked(item, todo); !bad.ok()) {
              todo.violation = std::move(bad);
              break;
            }
          }
          if (unacked_in_count_ >= env_->limits.ack_item_count) force_frame_ = true;
        }
      }
      AdmitWaitingLocked();
      StartReadyLocked(todo);
    }
  }
  if (!farewell.ok()) {
    Bury(farewell, /*say_goodbye=*/false);
    return;
  }
  // Handlers that run inline answer into the outbox; everything leaves as one frame after them.
  Finish(todo);
  Todo after;
  {
    MutexLock lock(mu_);
    --cork_;
    if (link == link_) {
      if (unacked_in_count_ > 0 && ack_due_ == absl::InfiniteFuture()) {
        ack_due_ = last_received_ + env_->limits.ack_delay;
      }
      WantWriteLocked(after);
      ArmTimerLocked(std::min(ack_due_, NextWakeLocked()));
    }
  }
  Finish(after);
}

absl::Status Session::OnItemLocked(const ItemView& item, Todo& todo) {
  switch (static_cast<ItemKind>(item.kind)) {
    case ItemKind::kRequest:
      OnRequestLocked(item, todo);
      return absl::OkStatus();
    case ItemKind::kReply:
      OnReplyLocked(item, todo);
      return absl::OkStatus();
    case ItemKind::kCancel:
      OnCancelLocked(item.call, todo);
      return absl::OkStatus();
    case ItemKind::kReceived:
      if (!outgoing_.OnReceived(item.transfer, item.offset, item.resend)) {
        return absl::InternalError(absl::StrCat(peer_name_, " acknowledged byte ", item.offset,
                                                " of transfer ", item.transfer,
                                                ", which is shorter"));
      }
      todo.write_bulk = bulk_connection_;
      return absl::OkStatus();
    default:
      if (IsCritical(item.kind)) {
        RefuseLocked(item.call,
                     absl::UnimplementedError(absl::StrCat(
                         "item kind ", item.kind, " is not known here; update ", env_->self)));
      }
      return absl::OkStatus();
  }
}

}  // namespace gradwire::rpc
