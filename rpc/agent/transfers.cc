#include "rpc/agent/transfers.h"

#include <algorithm>
#include <utility>

namespace gradwire::rpc {

uint64_t OutgoingTransfers::Add(TransferClass which, Buffer data) {
  const uint64_t bit = static_cast<uint64_t>(which);
  const uint64_t id = (++last_number_[bit] << 1) | bit;
  transfers_[id].data = std::move(data);
  return id;
}

void OutgoingTransfers::Drop(uint64_t transfer) { transfers_.erase(transfer); }

std::optional<OutgoingTransfers::Chunk> OutgoingTransfers::Next() {
  uint64_t request_in_flight = 0;
  uint64_t chosen[2] = {0, 0};
  for (const auto& [id, transfer] : transfers_) {
    const size_t bit = id & 1;
    if (bit == 0) request_in_flight += transfer.next - transfer.acked;
    if (chosen[bit] == 0 && transfer.next < transfer.data.size()) chosen[bit] = id;
  }
  if (request_in_flight >= window_bytes_) chosen[0] = 0;
  const size_t turn = static_cast<size_t>(turn_);
  const uint64_t id = chosen[turn] != 0 ? chosen[turn] : chosen[1 - turn];
  if (id == 0) return std::nullopt;
  turn_ = static_cast<TransferClass>(1 - (id & 1));
  Transfer& transfer = transfers_[id];
  Chunk chunk;
  chunk.transfer = id;
  chunk.total_bytes = transfer.data.size();
  chunk.offset = transfer.next;
  chunk.data = transfer.data.Slice(
      transfer.next, std::min<uint64_t>(chunk_bytes_, transfer.data.size() - transfer.next));
  transfer.next += chunk.data.size();
  return chunk;
}

bool OutgoingTransfers::OnReceived(uint64_t transfer, uint64_t offset, bool resend) {
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end()) return true;  // dropped meanwhile
  Transfer& t = found->second;
  if (offset > t.data.size()) return false;
  if (offset == t.data.size()) {
    transfers_.erase(found);
    return true;
  }
  t.acked = std::max(t.acked, offset);
  if (resend) t.next = std::max(offset, t.acked);
  t.next = std::max(t.next, t.acked);
  return true;
}

void OutgoingTransfers::Rewind(const std::vector<ReceivedProgress>& progress) {
  for (auto& [id, transfer] : transfers_) transfer.next = transfer.acked;
  for (const ReceivedProgress& p : progress) {
    (void)OnReceived(p.transfer, p.received_bytes, /*resend=*/true);
  }
}

std::shared_ptr<IncomingTransfer> IncomingTransfers::Touch(uint64_t transfer, uint64_t total_bytes,
                                                           absl::Time now, bool* mismatch) {
  *mismatch = false;
  const auto found = live_.find(transfer);
  if (found != live_.end()) {
    if (found->second->total_bytes == total_bytes) return found->second;
    *mismatch = true;
    return nullptr;
  }
  uint64_t& max_seen = max_seen_[transfer & 1];
  if (transfer <= max_seen) return nullptr;
  max_seen = transfer;
  if (abandoned_.erase(transfer) > 0) return nullptr;
  return Create(transfer, total_bytes, now);
}

std::shared_ptr<IncomingTransfer> IncomingTransfers::Describe(uint64_t transfer,
                                                              uint64_t total_bytes,
                                                              absl::Time now) {
  const auto found = live_.find(transfer);
  if (found != live_.end()) {
    return found->second->total_bytes == total_bytes ? found->second : nullptr;
  }
  uint64_t& max_seen = max_seen_[transfer & 1];
  max_seen = std::max(max_seen, transfer);
  return Create(transfer, total_bytes, now);
}

std::shared_ptr<IncomingTransfer> IncomingTransfers::Create(uint64_t transfer, uint64_t total_bytes,
                                                            absl::Time now) {
  auto created = std::make_shared<IncomingTransfer>();
  created->id = transfer;
  created->total_bytes = total_bytes;
  created->progress_at = now;
  live_.emplace(transfer, created);
  return created;
}

std::shared_ptr<IncomingTransfer> IncomingTransfers::Find(uint64_t transfer) const {
  const auto found = live_.find(transfer);
  return found == live_.end() ? nullptr : found->second;
}

void IncomingTransfers::Abandon(uint64_t transfer) {
  if (live_.erase(transfer) > 0) return;
  if (transfer > max_seen_[transfer & 1]) abandoned_.insert(transfer);
}

void IncomingTransfers::Clear() {
  live_.clear();
  abandoned_.clear();
}

std::vector<ReceivedProgress> IncomingTransfers::Progress() const {
  std::vector<ReceivedProgress> progress;
  for (const auto& [id, transfer] : live_) {
    if (!transfer->complete()) progress.push_back({id, transfer->received_bytes});
  }
  return progress;
}

}  // namespace gradwire::rpc
