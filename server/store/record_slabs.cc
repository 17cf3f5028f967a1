#include "server/store/record_slabs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

// A slab is 2^18 records, so that it is whole large pages whatever the record (a multiple of 8
// bytes), or fewer where that would be more address space than this.
constexpr int kMaxSlabShift = 18;
constexpr size_t kMaxSlabBytes = size_t{256} << 20;
constexpr size_t kSmallStepBytes = size_t{64} << 10;
// Beyond this a step of 2 MiB is a quarter of the table at most.
constexpr size_t kSmallPagesUpToBytes = size_t{8} << 20;

int SlabShift(size_t record_bytes) {
  int shift = kMaxSlabShift;
  while (shift > 0 && (record_bytes << shift) > kMaxSlabBytes) --shift;
  return shift;
}

}  // namespace

RecordSlabs::RecordSlabs(size_t payload_bytes, MemoryBudget* budget)
    : record_bytes_(RoundUp(sizeof(RecordHeader) + payload_bytes, alignof(RecordHeader))),
      slab_shift_(SlabShift(record_bytes_)),
      slab_mask_((uint32_t{1} << slab_shift_) - 1),
      slab_bytes_(RoundUp(record_bytes_ << slab_shift_, kLargePageBytes)),
      share_(budget) {}

size_t RecordSlabs::BytesFor(size_t end) const {
  if (end == 0) return 0;
  const size_t slab = (end - 1) >> slab_shift_;
  const size_t used_bytes = (((end - 1) & slab_mask_) + 1) * record_bytes_;
  if (slab == 0 && used_bytes <= kSmallPagesUpToBytes) return RoundUp(used_bytes, kSmallStepBytes);
  return slab * slab_bytes_ + RoundUp(used_bytes, kLargePageBytes);
}

absl::Status RecordSlabs::Reserve(size_t count, absl::string_view what) {
  const size_t fresh_count = count - std::min(count, free_count_);
  if (fresh_count > kMaxRecordCount - end_number_) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", count, " more ", what, ": there are ",
                                                     live_count_, " of ", kMaxRecordCount));
  }
  const size_t bytes = BytesFor(end_number_ + fresh_count);
  if (bytes <= committed_bytes_) return absl::OkStatus();
  const size_t added_bytes = bytes - committed_bytes_;
  GW_RETURN_IF_ERROR(share_.Reserve(added_bytes, what));
  const absl::Status status = CommitUpTo(bytes);
  share_.Release(bytes - committed_bytes_);  // 0 unless the system refused
  return status;
}

absl::Status RecordSlabs::CommitUpTo(size_t bytes) {
  while (committed_bytes_ < bytes) {
    const size_t slab = committed_bytes_ / slab_bytes_;
    const size_t begin = committed_bytes_ % slab_bytes_;
    if (slab == slabs_.size()) {
      GW_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Reserve(slab_bytes_));
      slabs_.push_back(std::move(memory));
    }
    const bool small = slab == 0 && begin < kSmallPagesUpToBytes;
    const size_t end = std::min(
        {small ? kSmallPagesUpToBytes : slab_bytes_, slab_bytes_, bytes - slab * slab_bytes_});
    GW_RETURN_IF_ERROR(
        slabs_[slab].Commit(begin, end - begin, small ? PageSize::kSmall : PageSize::kLarge));
    committed_bytes_ += end - begin;
  }
  return absl::OkStatus();
}

uint32_t RecordSlabs::Add(int64_t id) {
  uint32_t number = free_;
  if (number != kNoRecord) {
    free_ = static_cast<uint32_t>(Header(number).id);
    --free_count_;
  } else {
    number = end_number_++;
  }
  Header(number) = {id, 0, kRecordLive};
  ++live_count_;
  return number;
}

void RecordSlabs::Remove(uint32_t number) {
  Header(number) = {static_cast<int64_t>(free_), 0, 0};
  free_ = number;
  ++free_count_;
  --live_count_;
}

}  // namespace gradwire::server
