// RowStore: one owner's rows of one sparse table.
//
// A record is a header that holds the id, the weights, and the rule's slots; records lie in slabs
// (record_slabs.h), found by an index without keys (row_index.h). A row comes into being when it is
// first asked for or updated, with the value that the initializer gives its id.
//
// Shapes:        rows, gradients: float32 [ids.size(), dim], row-major.
// Duplicates:    allowed everywhere. Lookup writes the row for each of them; Update makes one step
//                for each, in their order; of Assign's the last counts.
// Versions:      version() counts the batches that changed rows; a row carries the low 32 bits of
//                the one that changed it last, 0 = never since it came into being.
// Ownership:     owns its memory, which counts in the budget; the budget must outlive it.
// Thread-safety: one thread at a time.
// Limits:        kMaxDim; kMaxRecordCount rows; the budget -> RESOURCE_EXHAUSTED, nothing changed.
// Errors:        INVALID_ARGUMENT: sizes that don't fit together, naming both.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optim/rules/init.h"
#include "optim/rules/rule.h"
#include "server/store/memory_budget.h"
#include "server/store/record_slabs.h"
#include "server/store/row_index.h"
#include "server/store/virtual_shard.h"

namespace gradwire::server {

// Above any embedding seen in practice; a record stays below 1 MiB with the rules that there are.
inline constexpr size_t kMaxDim = size_t{1} << 16;

struct RowStoreOptions {
  // Default: none; must be 1 … kMaxDim. Floats of a row.
  size_t dim = 0;
  optim::Rule rule = {};
  optim::Initializer init = {};
  // Default: no limit. Not owned.
  MemoryBudget* budget = nullptr;
  // Default: "". The table, for messages.
  std::string name = {};
  // Default: 0. Mixed into the index's hash, so that who chooses the ids can't choose where they
  // collide; random in production.
  uint64_t index_seed = 0;
};

// A row as it is; for checkpoints and moving. Spans are valid until the store is changed.
struct RowView {
  int64_t id = 0;
  uint32_t version = 0;
  // The tick (SetTick) of the last update, for eviction by age.
  uint32_t tick = 0;
  std::span<const float> weights = {};  // [dim]
  std::span<const float> slots;         // [rule.SlotCount(dim)]
};

using ShardSet = std::bitset<kVirtualShardCount>;

class RowStore {
 public:
  // INVALID_ARGUMENT: dim 0 or above kMaxDim.
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(RowStoreOptions options);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Writes the rows of `ids` to `rows`. Unknown ids come into being where `create`; otherwise their
  // initial value is written and nothing changes. versions: empty, or one place for each id.
  // After an error `rows` and `versions` are unspecified.
  absl::Status Lookup(std::span<const int64_t> ids, bool create, std::span<float> rows,
                      std::span<uint32_t> versions = {});

  // One step of the rule for each id; unknown ids come into being first. All or nothing. An empty
  // batch is no batch: version() stays.
  absl::Status Update(double lr, std::span<const int64_t> ids, std::span<const float> gradients);

  // Makes rows of unknown ids; all or nothing. An Update of them can't fail for want of memory
  // then.
  absl::Status Touch(std::span<const int64_t> ids);

  // Sets the weights of `ids`, unknown or not, and their slots to what they are before the first
  // gradient: for loading. All or nothing; counts as a batch.
  absl::Status Assign(std::span<const int64_t> ids, std::span<const float> rows);

  // Puts a row as RowView shows it, instead of the one with its id: for restoring and moving.
  // Leaves version() alone; RestoreVersion sets it.
  absl::Status Put(const RowView& row);
  void RestoreVersion(uint64_t version) { version_ = version; }

  // Removes the rows; how many there were. Their memory is used for later rows.
  size_t Erase(std::span<const int64_t> ids);

  // Calls `visit` for each row of the shards, in the order the rows lie in memory, until it fails.
  // It must not change the store.
  absl::Status ForEach(
      const ShardSet& shards,
      const std::function<absl::Status(VirtualShard, const RowView&)>& visit) const;

  // What updates from now on write as a row's age: the low 31 bits, unit the caller's.
  void SetTick(uint32_t tick) { tick_ = tick; }

  size_t dim() const { return options_.dim; }
  const optim::Rule& rule() const { return options_.rule; }
  size_t row_count() const { return records_.live_count(); }
  // Memory that the rows and their index take, as the budget counts it.
  size_t resident_bytes() const { return records_.resident_bytes() + index_.resident_bytes(); }
  // Batches that changed rows.
  uint64_t version() const { return version_; }

 private:
  explicit RowStore(RowStoreOptions options);

  // Records of `ids` into found_, null where unknown; the places of those into missing_.
  void FindAll(std::span<const int64_t> ids);
  // Makes rows of the missing ones; found_ then has no null. All or nothing.
  absl::Status CreateMissing(std::span<const int64_t> ids);
  // Room for the missing ones, repetitions counted once where there is little.
  absl::Status ReserveMissing(std::span<const int64_t> ids);
  // Room for that many more rows: nothing after it can fail.
  absl::Status ReserveRows(size_t count);
  absl::Status CheckBatch(size_t id_count, size_t float_count, const char* what) const;
  // The number of a new record with header and index entry; weights and slots are not written.
  uint32_t AddRecord(int64_t id, uint64_t hash);
  // Marks it as changed by this batch.
  void Stamp(std::byte* record);

  const RowStoreOptions options_;
  const size_t slot_count_;
  const std::string what_;  // for the budget's messages
  RecordSlabs records_;
  RowIndex index_;
  uint64_t version_ = 0;
  uint32_t tick_ = 0;
  // Of the batch at hand; kept, so that a batch allocates nothing.
  std::vector<std::byte*> found_;
  std::vector<size_t> missing_;
};

}  // namespace gradwire::server
