// Session: large bytes, on their way in and out.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/session.h"
#include "rpc/base/crc32c.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {
// Bad chunks in a row before a transfer is given up: a wire that corrupts this often is broken.
constexpr int kMaxBadChunks = 8;
// Transfers abandoned before their first byte that one peer may leave behind.
constexpr size_t kMaxAbandoned = 65536;
// Bulk lanes of a session whose hellos are remembered.
constexpr size_t kMaxBulkNonces = 1024;
}  // namespace

uint64_t Session::AttachBulk(std::shared_ptr<Connection> connection,
                             const std::vector<ReceivedProgress>& peer_progress) {
  Todo todo;
  uint64_t link = 0;
  {
    MutexLock lock(mu_);
    if (state_ == State::kBuried || state_ == State::kOpening) return 0;
    if (bulk_connection_ != nullptr) {
      todo.close.emplace_back(std::move(bulk_connection_),
                              absl::UnavailableError("replaced by a newer bulk lane"));
    }
    bulk_connection_ = std::move(connection);
    link = bulk_link_ = ++last_link_;
    bulk_received_ = env_->clock->Now();
    outgoing_.Rewind(peer_progress);
    todo.write_bulk = bulk_connection_;
  }
  Finish(todo);
  return link;
}

bool Session::TakeBulkNonce(const std::string& nonce) {
  MutexLock lock(mu_);
  if (std::find(bulk_nonces_.begin(), bulk_nonces_.end(), nonce) != bulk_nonces_.end()) {
    return false;
  }
  bulk_nonces_.push_back(nonce);
  if (bulk_nonces_.size() > kMaxBulkNonces) bulk_nonces_.pop_front();
  return true;
}

void Session::OnBulkClosed(uint64_t link, const absl::Status&) {
  {
    MutexLock lock(mu_);
    if (link == 0 || link != bulk_link_) return;
    bulk_link_ = 0;
    bulk_connection_ = nullptr;
    if (state_ == State::kBuried) return;
  }
  if (auto observer = observer_.lock()) observer->OnBulkLost(shared_from_this());
}

bool Session::WriteChunk(uint64_t link, BufferList& out) {
  std::optional<OutgoingTransfers::Chunk> chunk;
  {
    MutexLock lock(mu_);
    if (link == 0 || link != bulk_link_) return false;
    chunk = outgoing_.Next();
  }
  if (!chunk.has_value()) return false;
  // The checksum is taken here, just before the kernel reads the same bytes out of the cache.
  ChunkHead head;
  head.transfer = chunk->transfer;
  head.total_bytes = chunk->total_bytes;
  head.offset = chunk->offset;
  head.crc32c = Crc32c(chunk->data.bytes());
  WriteBulkChunk(head, std::move(chunk->data), out);
  return true;
}

void Session::OnChunk(uint64_t link, const BulkFrameView& frame) {
  Todo todo;
  std::shared_ptr<IncomingTransfer> transfer;
  const ChunkHead& head = frame.chunk;
  const uint64_t size = frame.data_bytes;
  const bool request = ClassOf(head.transfer) == TransferClass::kRequest;
  std::byte* destination = nullptr;
  {
    MutexLock lock(mu_);
    if (link == 0 || link != bulk_link_) return;
    const absl::Time now = env_->clock->Now();
    last_received_ = bulk_received_ = now;
    if (head.total_bytes > env_->limits.max_tensor_bytes || head.offset > head.total_bytes ||
        size > head.total_bytes - head.offset || size == 0) {
      todo.violation = absl::InternalError(absl::StrCat(
          peer_name_, " sent ", size, " bytes at offset ", head.offset, " of a transfer of ",
          head.total_bytes, " bytes (limit ", env_->limits.max_tensor_bytes, ")"));
    } else {
      bool mismatch = false;
      const bool known = incoming_.Find(head.transfer) != nullptr;
      transfer = incoming_.Touch(head.transfer, head.total_bytes, now, &mismatch);
      if (mismatch) {
        todo.violation = absl::InternalError(
            absl::StrCat(peer_name_, " changed the length of transfer ", head.transfer));
      }
      if (transfer != nullptr && !known && request) {
        staged_bytes_ += head.total_bytes;
        if (staged_bytes_ > env_->limits.max_staged_bytes + env_->limits.max_tensor_bytes +
                                2 * env_->limits.transfer_window_bytes) {
          todo.violation = absl::ResourceExhaustedError(absl::StrCat(
              peer_name_, " sent ", staged_bytes_, " bytes of arguments beyond what was admitted"));
          transfer = nullptr;
        }
      }
    }
    if (transfer != nullptr) {
      if (transfer->busy || head.offset < transfer->received_bytes || transfer->complete()) {
        transfer = nullptr;  // a repeat
      } else if (head.offset > transfer->received_bytes) {
        // Something between was lost. One question a round trip is enough.
        if (now >= transfer->progress_at + absl::Milliseconds(5)) {
          transfer->progress_at = now;
          ++env_->stats.chunk_restarts;
          SendReceivedLocked(transfer->id, transfer->received_bytes, /*resend=*/true);
          WantWriteLocked(todo);
        }
        transfer = nullptr;
      } else {
        if (!transfer->data) {
          absl::StatusOr<PooledBuffer> data = env_->pool->Allocate(transfer->total_bytes);
          if (data.ok()) transfer->data = *std::move(data);
        }
        destination = transfer->data ? transfer->data.data() : nullptr;
        transfer->busy = destination != nullptr;
        if (destination == nullptr) transfer = nullptr;  // out of memory: asked for again later
      }
    }
  }
  if (transfer != nullptr) {
    // Copied outside the lock: `busy` keeps this transfer ours.
    uint32_t crc = 0;
    std::byte* at = destination + head.offset;
    for (const Bytes piece : frame.data) {
      crc = Crc32cCopy(at, piece.data(), piece.size(), crc);
      at += piece.size();
    }
    MutexLock lock(mu_);
    transfer->busy = false;
    if (state_ != State::kBuried && incoming_.Find(transfer->id) == transfer) {
      if (crc != head.crc32c) {
        ++env_->stats.corrupt_chunks;
        if (++transfer->bad_chunk_count >= kMaxBadChunks) {
          todo.violation = absl::DataLossError(
              absl::StrCat("checksum of transfer ", transfer->id, " from ", peer_name_, " failed ",
                           kMaxBadChunks, " times at offset ", head.offset));
        } else {
          SendReceivedLocked(transfer->id, transfer->received_bytes, /*resend=*/true);
          WantWriteLocked(todo);
        }
      } else {
        transfer->bad_chunk_count = 0;
        transfer->received_bytes += size;
        transfer->progress_at = env_->clock->Now();
        if (transfer->complete()) {
          OnTransferWholeLocked(transfer, todo);
          WantWriteLocked(todo);
        } else if (request &&
                   transfer->received_bytes - transfer->acked_bytes >=
                       env_->limits.transfer_window_bytes / 4 &&
                   MayAckLocked(*transfer)) {
          transfer->acked_bytes = transfer->received_bytes;
          SendReceivedLocked(transfer->id, transfer->received_bytes, /*resend=*/false);
          WantWriteLocked(todo);
        }
      }
    }
  }
  Finish(todo);
}

// ---- what a descriptor announces ----

absl::Status Session::StageLocked(const ItemView& item, uint64_t call, StagedPayload& staged) {
  const uint64_t limit = env_->limits.max_tensor_bytes;
  if (item.head_bytes > limit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(item.head_bytes, " bytes of values, the limit max_tensor_bytes is ", limit));
  }
  for (const AttachmentRef& ref : item.attachments) {
    if (ref.size_bytes > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a tensor of ", ref.size_bytes, " bytes, the limit max_tensor_bytes is ", limit));
    }
  }
  staged.payload.head = item.head;
  staged.payload.attachments.resize(item.attachments.size());
  if (item.head_transfer != 0) {
    GW_RETURN_IF_ERROR(ExpectTransferLocked(item.head_transfer, item.head_bytes, call, -1, staged));
  }
  size_t inline_index = 0;
  for (size_t i = 0; i < item.attachments.size(); ++i) {
    const AttachmentRef& ref = item.attachments[i];
    if (ref.transfer == 0) {
      staged.payload.attachments[i].bytes = item.inline_attachments[inline_index++];
      continue;
    }
    GW_RETURN_IF_ERROR(
        ExpectTransferLocked(ref.transfer, ref.size_bytes, call, static_cast<int>(i), staged));
  }
  return absl::OkStatus();
}

absl::Status Session::ExpectTransferLocked(uint64_t id, uint64_t size_bytes, uint64_t call,
                                           int slot, StagedPayload& staged) {
  const bool known = incoming_.Find(id) != nullptr;
  const std::shared_ptr<IncomingTransfer> transfer =
      size_bytes == 0 ? nullptr : incoming_.Describe(id, size_bytes, env_->clock->Now());
  if (transfer == nullptr || transfer->described) {
    return absl::InvalidArgumentError(
        absl::StrCat("transfer ", id, " of ", size_bytes, " bytes contradicts its chunks"));
  }
  if (!known && ClassOf(id) == TransferClass::kRequest) staged_bytes_ += size_bytes;
  transfer->described = true;
  transfer->call = call;
  transfer->slot = slot;
  if (transfer->complete()) {
    DeliverLocked(*transfer, staged);
    incoming_.Abandon(id);
  } else {
    ++staged.missing_count;
    staged.transfers.push_back(id);
    ArmTimerLocked(transfer->progress_at + env_->limits.resend_timeout);
  }
  return absl::OkStatus();
}

void Session::DeliverLocked(IncomingTransfer& transfer, StagedPayload& staged) {
  const size_t size = transfer.data.size();
  std::shared_ptr<std::byte> owner = std::move(transfer.data).Share();
  Buffer bytes(Bytes(owner.get(), size), owner);
  if (transfer.slot < 0) {
    staged.payload.head = std::move(bytes);
  } else {
    ReceivedAttachment& attachment = staged.payload.attachments[transfer.slot];
    attachment.bytes = std::move(bytes);
    attachment.exclusive = true;
  }
  if (ClassOf(transfer.id) == TransferClass::kRequest) staged.staged_bytes += transfer.total_bytes;
}

void Session::OnTransferWholeLocked(const std::shared_ptr<IncomingTransfer>& transfer, Todo& todo) {
  const bool request = ClassOf(transfer->id) == TransferClass::kRequest;
  bool withhold = false;
  if (transfer->described) {
    StagedPayload* staged = nullptr;
    std::shared_ptr<IncomingCall> serving;
    if (request) {
      const auto found = serving_.find(transfer->call);
      if (found != serving_.end()) {
        serving = found->second;
        staged = &serving->arguments;
      }
    } else {
      const auto found = calls_.find(transfer->call);
      if (found != calls_.end()) staged = &found->second.reply;
    }
    incoming_.Abandon(transfer->id);  // taken out of the table; the bytes go to the call
    if (staged != nullptr) {
      DeliverLocked(*transfer, *staged);
      --staged->missing_count;
      auto& missing = staged->transfers;
      missing.erase(std::remove(missing.begin(), missing.end(), transfer->id), missing.end());
      if (staged->missing_count == 0) {
        if (serving != nullptr) {
          withhold = staged_bytes_ > env_->limits.max_staged_bytes;
          ReadyLocked(serving, todo);
        } else {
          CompleteIfWholeLocked(transfer->call, calls_.find(transfer->call)->second, todo);
        }
      }
    }
  }
  if (withhold) {
    withheld_.push_back({transfer->id, transfer->total_bytes});
  } else {
    SendReceivedLocked(transfer->id, transfer->total_bytes, /*resend=*/false);
  }
}

void Session::SendReceivedLocked(uint64_t transfer, uint64_t offset, bool resend) {
  OutboxItem item;
  item.kind = ItemKind::kReceived;
  item.transfer = transfer;
  item.offset = offset;
  item.resend = resend;
  AppendItemLocked(std::move(item));
}

bool Session::MayAckLocked(const IncomingTransfer& transfer) const {
  if (ClassOf(transfer.id) == TransferClass::kReply) return true;
  if (staged_bytes_ <= env_->limits.max_staged_bytes) return true;
  // Above the quota only the oldest one goes on, so that one tensor is always admitted.
  for (const auto& [id, other] : incoming_.all()) {
    if (ClassOf(id) == TransferClass::kRequest && !other->complete()) return id == transfer.id;
  }
  return true;
}

void Session::AckWithheldLocked() {
  if (staged_bytes_ > env_->limits.max_staged_bytes) return;
  for (const ReceivedProgress& whole : withheld_) {
    SendReceivedLocked(whole.transfer, whole.received_bytes, /*resend=*/false);
  }
  withheld_.clear();
  for (const auto& [id, transfer] : incoming_.all()) {
    if (ClassOf(id) != TransferClass::kRequest || transfer->complete()) continue;
    if (transfer->received_bytes - transfer->acked_bytes < env_->limits.transfer_window_bytes / 4) {
      continue;
    }
    transfer->acked_bytes = transfer->received_bytes;
    SendReceivedLocked(id, transfer->received_bytes, /*resend=*/false);
  }
}

// ---- what nobody wants any more ----

void Session::AbandonTransferLocked(uint64_t id, uint64_t size_bytes) {
  if (const auto transfer = incoming_.Find(id); transfer != nullptr) {
    if (ClassOf(id) == TransferClass::kRequest) staged_bytes_ -= transfer->total_bytes;
    size_bytes = transfer->total_bytes;
  }
  incoming_.Abandon(id);
  // Nothing more of it has to be sent.
  SendReceivedLocked(id, size_bytes, /*resend=*/false);
}

void Session::AbandonLocked(const ItemView& item, Todo& todo) {
  if (item.head_transfer != 0) AbandonTransferLocked(item.head_transfer, item.head_bytes);
  for (const AttachmentRef& ref : item.attachments) {
    if (ref.transfer != 0) AbandonTransferLocked(ref.transfer, ref.size_bytes);
  }
  if (incoming_.abandoned_count() > kMaxAbandoned) {
    todo.violation = absl::ResourceExhaustedError(
        absl::StrCat(peer_name_, " announced ", incoming_.abandoned_count(),
                     " transfers for refused calls and sent none"));
  }
}

void Session::DropTransfersLocked(StagedPayload& staged) {
  for (uint64_t id : staged.transfers) {
    if (const auto transfer = incoming_.Find(id); transfer != nullptr) {
      AbandonTransferLocked(id, transfer->total_bytes);
    }
  }
  staged.transfers.clear();
  staged.missing_count = 0;
}

}  // namespace gradwire::rpc
