// The large runs of bytes of one session: those on their way out and those on their way in.
//
// Not thread-safe: a part of Session, under its lock. No I/O.
// Protocol: proto/gradwire/v1/session.proto, BulkFrame and ITEM_KIND_RECEIVED.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "rpc/base/buffer.h"
#include "rpc/base/buffer_pool.h"

namespace gradwire::rpc {

// The lowest bit of a transfer's id.
enum class TransferClass : uint64_t { kRequest = 0, kReply = 1 };
inline TransferClass ClassOf(uint64_t transfer) { return static_cast<TransferClass>(transfer & 1); }

struct ReceivedProgress {
  uint64_t transfer = 0;
  uint64_t received_bytes = 0;
};

// ---- out ----

class OutgoingTransfers {
 public:
  OutgoingTransfers(uint64_t chunk_bytes, uint64_t window_bytes)
      : chunk_bytes_(chunk_bytes), window_bytes_(window_bytes) {}

  // Takes a run of bytes in; it is sent when its turn comes. Returns its id.
  uint64_t Add(TransferClass which, Buffer data);
  void Drop(uint64_t transfer);
  void Clear() { transfers_.clear(); }

  struct Chunk {
    uint64_t transfer = 0;
    uint64_t total_bytes = 0;
    uint64_t offset = 0;
    Buffer data;
  };
  // The next chunk to send; replies and requests take turns, each class in the order of its ids.
  std::optional<Chunk> Next();

  // The other side has the bytes below `offset`; `resend`: and wants what follows again. False: the
  // offset is beyond the end of the transfer (a broken peer).
  [[nodiscard]] bool OnReceived(uint64_t transfer, uint64_t offset, bool resend);
  // A bulk lane was opened anew: everything goes on from what the other side says it has, from the
  // last acknowledged byte where it says nothing.
  void Rewind(const std::vector<ReceivedProgress>& progress);

  size_t count() const { return transfers_.size(); }
  bool Contains(uint64_t transfer) const { return transfers_.contains(transfer); }

 private:
  struct Transfer {
    Buffer data;
    uint64_t next = 0;   // offset of the next byte to send
    uint64_t acked = 0;  // the other side has what lies below
  };
  const uint64_t chunk_bytes_;
  const uint64_t window_bytes_;
  uint64_t last_number_[2] = {0, 0};
  TransferClass turn_ = TransferClass::kReply;
  absl::btree_map<uint64_t, Transfer> transfers_;
};

// ---- in ----

struct IncomingTransfer {
  uint64_t id = 0;
  uint64_t total_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t acked_bytes = 0;  // what was acknowledged last
  bool busy = false;         // a chunk is being copied outside the lock
  int bad_chunk_count = 0;   // in a row
  PooledBuffer data;
  // Which call waits for it, once its descriptor is known.
  bool described = false;
  uint64_t call = 0;
  int slot = -1;           // attachment index; -1: the head
  absl::Time progress_at;  // for asking again when nothing comes

  bool complete() const { return received_bytes == total_bytes; }
};

class IncomingTransfers {
 public:
  // For a chunk: the transfer, new if this is the first that is heard of it. Null: over (done or
  // abandoned), overtaken by a later one (then its descriptor will make it), or `total_bytes`
  // contradicts what was said before (then *mismatch is set).
  std::shared_ptr<IncomingTransfer> Touch(uint64_t transfer, uint64_t total_bytes, absl::Time now,
                                          bool* mismatch);
  // For its descriptor, which comes exactly once: the transfer, made if no chunk of it came yet.
  // Null: `total_bytes` contradicts the chunks.
  std::shared_ptr<IncomingTransfer> Describe(uint64_t transfer, uint64_t total_bytes,
                                             absl::Time now);
  std::shared_ptr<IncomingTransfer> Find(uint64_t transfer) const;
  // Forgets a transfer; chunks that still come are ignored. `total_bytes` as its descriptor says.
  void Abandon(uint64_t transfer);
  void Clear();

  // Of all transfers that are not complete, for a new bulk lane.
  std::vector<ReceivedProgress> Progress() const;
  const absl::btree_map<uint64_t, std::shared_ptr<IncomingTransfer>>& all() const { return live_; }

  // Abandoned before their first byte; bounds what a peer can make us remember.
  size_t abandoned_count() const { return abandoned_.size(); }

 private:
  std::shared_ptr<IncomingTransfer> Create(uint64_t transfer, uint64_t total_bytes, absl::Time now);

  absl::btree_map<uint64_t, std::shared_ptr<IncomingTransfer>> live_;
  std::set<uint64_t> abandoned_;   // ids above max_seen_
  uint64_t max_seen_[2] = {0, 0};  // highest id of a class of which a byte or a descriptor came
};

}  // namespace gradwire::rpc
