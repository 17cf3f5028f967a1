// RowIndex: from an id to the number of its record, without storing the id.
//
// Groups of one cache line: 12 tags (a byte of the hash), 12 record numbers, and how many entries
// went past the group because it was full. An id's home is the group at floor(hash * groups /
// 2^64); a full group passes its entries to the next one. A tag that matches is checked against the
// id in the record itself, so a lookup costs one line of the index and the record's header.
//
// Growth:        by a quarter, a few groups with each insertion. The home rises with the hash, so
//                the groups move in order, and memory of what has moved is given back on the way:
//                no pause, no time with two whole tables. The ids are read from the records.
// Cost:          5.3 bytes an entry at a load of 0.6 … 0.75: 7.1 … 8.9 bytes a row.
// Thread-safety: one thread at a time.
// Limits:        the budget -> RESOURCE_EXHAUSTED.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/store/memory_budget.h"
#include "server/store/page_memory.h"
#include "server/store/record_slabs.h"

namespace gradwire::server {

// The locality of a prefetch that a batch makes (prefetcht2): not into the first-level cache. Lines
// on their way there are few (24 on Zen 4) and would hold up the loop: half as fast.
inline constexpr int kBehindFirstLevel = 1;

class RowIndex {
 public:
  // A record, and one more that it may be instead, each kNoRecord where there is none.
  struct Candidates {
    uint32_t first = kNoRecord;
    uint32_t second = kNoRecord;
  };

 private:
  static constexpr size_t kSlots = 12;
  struct alignas(64) Group {
    uint8_t tags[kSlots];  // 0: free
    uint32_t passed;       // entries that would have been here or before, and lie behind
    uint32_t numbers[kSlots];

    // The first two with that tag.
    Candidates Find(uint8_t tag) const {
      const uint32_t match = Match(tag);
      const uint32_t rest = match & (match - 1);
      return {match != 0 ? numbers[__builtin_ctz(match)] : kNoRecord,
              rest != 0 ? numbers[__builtin_ctz(rest)] : kNoRecord};
    }
    // A bit for each slot with that tag.
    uint32_t Match(uint8_t tag) const {
#if defined(__SSE2__)
      const __m128i line = _mm_load_si128(reinterpret_cast<const __m128i*>(this));
      const __m128i same = _mm_cmpeq_epi8(line, _mm_set1_epi8(static_cast<char>(tag)));
      return static_cast<uint32_t>(_mm_movemask_epi8(same)) & ((1u << kSlots) - 1);
#else
      uint32_t match = 0;
      for (size_t slot = 0; slot < kSlots; ++slot) {
        match |= static_cast<uint32_t>(tags[slot] == tag) << slot;
      }
      return match;
#endif
    }
  };
  static_assert(sizeof(Group) == 64);

 public:
  // records: where the ids are; must outlive this. seed: mixed into every hash.
  RowIndex(const RecordSlabs& records, uint64_t seed, MemoryBudget* budget)
      : records_(records), seed_(seed), share_(budget) {}

  // Room for `count` more entries: insertions up to that can't fail. All or nothing.
  absl::Status Reserve(size_t count, absl::string_view what);

  // Both halves of a product of 128 bits (the constant is an arbitrary odd one, half of its bits
  // set). Independent of the id's virtual shard, which the ids of an owner have in common.
  uint64_t Hash(int64_t id) const {
    const auto product =
        static_cast<unsigned __int128>(static_cast<uint64_t>(id) ^ seed_) * 0x9fb21c651e98df25u;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  // For batches: Start, some ids later Guess, some ids later GuessNext where that gave nothing,
  // some ids later a look at the guessed record's id, and Find where it is another one. Inlined by
  // force: g++ drops calls of a function that only prefetches. A probe is valid until the index is
  // changed.
  struct Probe {
    uint64_t hash;
    const Group* home;
  };
  __attribute__((always_inline)) Probe Start(int64_t id) const {
    const uint64_t hash = Hash(id);
    const Group* const home = &HomeOf(hash);
    __builtin_prefetch(home, 0, kBehindFirstLevel);
    return {hash, home};
  }
  // Out of the home group; where none of it matches, the next one is asked for.
  __attribute__((always_inline)) Candidates Guess(const Probe& probe) const {
    const Candidates found = probe.home->Find(TagOf(probe.hash));
    // Behind every home there is a group.
    if (found.first == kNoRecord) __builtin_prefetch(probe.home + 1, 0, kBehindFirstLevel);
    return found;
  }
  // Out of the group behind it, if the home group has been passed; more are rare.
  Candidates GuessNext(const Probe& probe) const {
    return probe.home->passed != 0 ? probe.home[1].Find(TagOf(probe.hash)) : Candidates{};
  }
  // The record of `id`, or kNoRecord.
  uint32_t Find(uint64_t hash, int64_t id) const;

  // The id must be in the record already and not in the index; room must be reserved.
  void Insert(uint64_t hash, uint32_t number);
  // The record must be in the index; its id must still be in it.
  void Erase(uint64_t hash, uint32_t number);

  size_t size() const { return size_; }
  size_t resident_bytes() const { return share_.held_bytes(); }
  // Whether groups are being moved; for tests.
  bool growing() const { return old_.group_count != 0; }

 private:
  // What a table without memory shows: free slots; never written.
  static Group* EmptyGroup();

  struct Table {
    PageMemory memory;
    Group* groups = EmptyGroup();
    size_t group_count = 0;        // homes
    size_t end_group = 0;          // homes and the tail behind them
    size_t share_bytes = 0;        // of the budget
    std::vector<uint32_t> strays;  // what passed the last group; empty but for hostile ids

    size_t HomeOf(uint64_t hash) const {
      return static_cast<size_t>((static_cast<unsigned __int128>(hash) * group_count) >> 64);
    }
  };

  static uint8_t TagOf(uint64_t hash) {
    const auto tag = static_cast<uint8_t>(hash);
    return tag != 0 ? tag : 1;
  }
  // The table that `hash` is in: the old one until its home has moved.
  const Table& TableOf(uint64_t hash) const {
    return old_.group_count != 0 && old_.HomeOf(hash) >= moved_groups_ ? old_ : table_;
  }
  Table& TableOf(uint64_t hash) {
    return old_.group_count != 0 && old_.HomeOf(hash) >= moved_groups_ ? old_ : table_;
  }
  const Group& HomeOf(uint64_t hash) const {
    const Table& table = TableOf(hash);
    return table.groups[table.HomeOf(hash)];
  }

  absl::Status StartGrowth(size_t group_count, absl::string_view what);
  // Moves at least `group_count` groups, or all that are left.
  void Move(size_t group_count);
  void MoveRange(size_t begin, size_t end);
  // Gives back large pages of the old table that have moved.
  void DecommitMoved();
  static void Place(Table& table, uint64_t hash, uint32_t number);

  const RecordSlabs& records_;
  const uint64_t seed_;
  BudgetShare share_;
  Table table_;
  Table old_;                // while growing; group_count 0 else
  size_t moved_groups_ = 0;  // groups of old_ below have moved
  size_t decommitted_groups_ = 0;
  size_t size_ = 0;
  uint32_t insertions_ = 0;
};

}  // namespace gradwire::server
