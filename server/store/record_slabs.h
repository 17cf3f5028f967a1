// RecordSlabs: records of one size, named by numbers from 0 on, in large pieces of memory.
//
// A record begins with a RecordHeader. Addresses never change while a record lives; a freed record
// is the next to be used again. Slabs are address space of up to 256 MiB, of which as much is taken
// as there are records: 64 KiB steps for the first 8 MiB, so that small tables stay small, then
// steps of one 2 MiB page.
//
// Thread-safety: one thread at a time.
// Limits:        kMaxRecordCount; the budget -> RESOURCE_EXHAUSTED.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/store/memory_budget.h"
#include "server/store/page_memory.h"

namespace gradwire::server {

struct RecordHeader {
  int64_t id;
  uint32_t version;
  // Bit 0: live. Above: the tick of the last update.
  uint32_t age_and_flags;
};
static_assert(sizeof(RecordHeader) == 16);

inline constexpr uint32_t kRecordLive = 1;
inline constexpr uint32_t kNoRecord = UINT32_MAX;
inline constexpr size_t kMaxRecordCount = UINT32_MAX;

class RecordSlabs {
 public:
  // payload_bytes: what follows the header. The record is rounded up to 8 bytes.
  RecordSlabs(size_t payload_bytes, MemoryBudget* budget);

  // Memory for `count` more records. All or nothing; `what` is for the message.
  absl::Status Reserve(size_t count, absl::string_view what);
  // A record out of what was reserved, its header set, its payload unspecified.
  uint32_t Add(int64_t id);
  void Remove(uint32_t number);

  std::byte* Address(uint32_t number) const {
    return slabs_[number >> slab_shift_].data() + (number & slab_mask_) * record_bytes_;
  }
  RecordHeader& Header(uint32_t number) const {
    return *reinterpret_cast<RecordHeader*>(Address(number));
  }
  int64_t IdOf(uint32_t number) const { return Header(number).id; }

  size_t record_bytes() const { return record_bytes_; }
  size_t live_count() const { return live_count_; }
  // Numbers ever used are below; some may be free (Header().age_and_flags has no kRecordLive).
  uint32_t end_number() const { return end_number_; }
  size_t resident_bytes() const { return share_.held_bytes(); }

 private:
  // Bytes of memory for the records below `end`, whole steps.
  size_t BytesFor(size_t end) const;
  // Makes the memory of all slabs together usable up to `bytes`.
  absl::Status CommitUpTo(size_t bytes);

  const size_t record_bytes_;
  const int slab_shift_;
  const uint32_t slab_mask_;
  const size_t slab_bytes_;
  BudgetShare share_;
  std::vector<PageMemory> slabs_;
  size_t committed_bytes_ = 0;  // of all slabs, from the first one's begin on
  uint32_t end_number_ = 0;
  size_t live_count_ = 0;
  uint32_t free_ = kNoRecord;  // list of freed records, through their ids
  size_t free_count_ = 0;
};

}  // namespace gradwire::server
