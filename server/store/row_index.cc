#include "server/store/row_index.h"

#include <algorithm>
#include <utility>

#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

// Fuller, and entries go past their homes too often (3 % at this load): each costs a lookup as much
// as five others.
constexpr size_t MaxEntries(size_t group_count, size_t slots) {
  return group_count * slots * 75 / 100;
}
// Behind the last home. Ids that are not chosen to collide never need more.
constexpr size_t kTailGroups = 8;
// Indexes up to this double, since a quarter of little is hardly more than the move costs.
constexpr size_t kDoubleUpToGroups = 4096;
constexpr size_t kLargePagesFromBytes = size_t{8} << 20;
// Moved with every so many insertions: more than twice as fast as the growth fills up.
constexpr uint32_t kMoveEvery = 8;
constexpr size_t kMoveGroups = 16;

}  // namespace

RowIndex::Group* RowIndex::EmptyGroup() {
  static Group empty{};
  return &empty;
}

absl::Status RowIndex::Reserve(size_t count, absl::string_view what) {
  const size_t needed = size_ + count;
  if (needed <= MaxEntries(table_.group_count, kSlots)) return absl::OkStatus();
  Move(SIZE_MAX);
  const size_t grown = table_.group_count <= kDoubleUpToGroups
                           ? table_.group_count * 2
                           : table_.group_count + table_.group_count / 4;
  const size_t least = needed * 100 / (75 * kSlots) + 1;
  return StartGrowth(std::max(grown, least), what);
}

absl::Status RowIndex::StartGrowth(size_t group_count, absl::string_view what) {
  const size_t least_bytes = (group_count + kTailGroups) * sizeof(Group);
  const bool large = least_bytes >= kLargePagesFromBytes;
  const size_t bytes = RoundUp(least_bytes, large ? kLargePageBytes : kSmallPageBytes);
  GW_RETURN_IF_ERROR(share_.Reserve(bytes, what));
  Table table;
  absl::StatusOr<PageMemory> memory = PageMemory::Reserve(bytes);
  absl::Status status = memory.status();
  if (status.ok()) {
    table.memory = *std::move(memory);
    status = table.memory.Commit(0, bytes, large ? PageSize::kLarge : PageSize::kSmall);
  }
  if (!status.ok()) {
    share_.Release(bytes);
    return status;
  }
  table.groups = reinterpret_cast<Group*>(table.memory.data());
  table.end_group = bytes / sizeof(Group);
  table.group_count = table.end_group - kTailGroups;
  table.share_bytes = bytes;
  old_ = std::exchange(table_, std::move(table));
  moved_groups_ = 0;
  decommitted_groups_ = 0;
  return absl::OkStatus();
}

uint32_t RowIndex::Find(uint64_t hash, int64_t id) const {
  const Table& table = TableOf(hash);
  const uint8_t tag = TagOf(hash);
  for (size_t g = table.HomeOf(hash);; ++g) {
    const Group& group = table.groups[g];
    for (uint32_t match = group.Match(tag); match != 0; match &= match - 1) {
      const uint32_t number = group.numbers[__builtin_ctz(match)];
      if (records_.IdOf(number) == id) return number;
    }
    if (group.passed == 0) return kNoRecord;
    if (g + 1 == table.end_group) break;
  }
  for (const uint32_t number : table.strays) {
    if (records_.IdOf(number) == id) return number;
  }
  return kNoRecord;
}

void RowIndex::Place(Table& table, uint64_t hash, uint32_t number) {
  for (size_t g = table.HomeOf(hash); g < table.end_group; ++g) {
    Group& group = table.groups[g];
    const uint32_t free = group.Match(0);
    if (free != 0) {
      const int slot = __builtin_ctz(free);
      group.tags[slot] = TagOf(hash);
      group.numbers[slot] = number;
      return;
    }
    ++group.passed;
  }
  table.strays.push_back(number);
}

void RowIndex::Insert(uint64_t hash, uint32_t number) {
  Place(TableOf(hash), hash, number);
  ++size_;
  if (growing() && ++insertions_ % kMoveEvery == 0) Move(kMoveGroups);
}

void RowIndex::Erase(uint64_t hash, uint32_t number) {
  Table& table = TableOf(hash);
  const uint8_t tag = TagOf(hash);
  --size_;
  for (size_t g = table.HomeOf(hash); g < table.end_group; ++g) {
    Group& group = table.groups[g];
    for (uint32_t match = group.Match(tag); match != 0; match &= match - 1) {
      const int slot = __builtin_ctz(match);
      if (group.numbers[slot] == number) {
        group.tags[slot] = 0;
        return;
      }
    }
    --group.passed;
  }
  std::erase(table.strays, number);
}

void RowIndex::Move(size_t group_count) {
  if (!growing()) return;
  // A boundary that no entry has passed, so that everything whose home lies below it moves. Once
  // the homes are through, the tail goes with them.
  size_t end = moved_groups_ + std::min(group_count, old_.group_count - moved_groups_);
  while (end < old_.group_count && old_.groups[end - 1].passed != 0) ++end;
  if (end == old_.group_count) end = old_.end_group;
  while (moved_groups_ < end) {
    const size_t stop = std::min(end, moved_groups_ + kMoveGroups);
    MoveRange(moved_groups_, stop);
    moved_groups_ = stop;
    DecommitMoved();
  }
  if (end < old_.end_group) return;
  for (const uint32_t number : old_.strays) {
    Place(table_, Hash(records_.IdOf(number)), number);
  }
  share_.Release(old_.share_bytes);
  old_ = Table{};
}

void RowIndex::MoveRange(size_t begin, size_t end) {
  for (size_t g = begin; g < end; ++g) {
    const Group& group = old_.groups[g];
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (group.tags[slot] != 0) __builtin_prefetch(records_.Address(group.numbers[slot]));
    }
  }
  for (size_t g = begin; g < end; ++g) {
    const Group& group = old_.groups[g];
    for (size_t slot = 0; slot < kSlots; ++slot) {
      if (group.tags[slot] == 0) continue;
      const uint32_t number = group.numbers[slot];
      Place(table_, Hash(records_.IdOf(number)), number);
    }
  }
}

void RowIndex::DecommitMoved() {
  constexpr size_t kPageGroups = kLargePageBytes / sizeof(Group);
  while (moved_groups_ - decommitted_groups_ >= kPageGroups) {
    old_.memory.Decommit(decommitted_groups_ * sizeof(Group), kLargePageBytes);
    decommitted_groups_ += kPageGroups;
  }
}

}  // namespace gradwire::server
