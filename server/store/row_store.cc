#include "server/store/row_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

// How many ids lie between asking for a line and using it: enough to cover a miss, few enough that
// the lines are still near.
constexpr size_t kAhead = 32;
constexpr size_t kRing = 128;  // at least 2 * kAhead + 1, a power of two
constexpr size_t kLineBytes = 64;
// The processor itself fetches what follows.
constexpr size_t kMaxPrefetchBytes = 8 * kLineBytes;
// Batches up to this stay in the second-level cache between finding and updating.
constexpr size_t kKeptBytes = size_t{384} << 10;

RecordHeader& HeaderOf(std::byte* record) { return *reinterpret_cast<RecordHeader*>(record); }
float* WeightsOf(std::byte* record) {
  return reinterpret_cast<float*>(record + sizeof(RecordHeader));
}

// Inlined by force: g++ takes a function that only prefetches for one without an effect, and drops
// its calls.
__attribute__((always_inline)) inline void PrefetchBytes(const std::byte* data, size_t bytes) {
  const size_t end = std::min(bytes, kMaxPrefetchBytes);
  __builtin_prefetch(data, 0, kBehindFirstLevel);
  for (size_t offset = kLineBytes; offset + kLineBytes < end; offset += kLineBytes) {
    __builtin_prefetch(data + offset, 0, kBehindFirstLevel);
  }
  __builtin_prefetch(data + end - 1, 0, kBehindFirstLevel);
}

// Calls visit(place, record or null) for each id, in order. What is probably the record is asked
// for some ids earlier: its first `bytes`.
template <class Visit>
void FindEach(const RowIndex& index, const RecordSlabs& records, std::span<const int64_t> ids,
              size_t bytes, Visit visit) {
  RowIndex::Probe probes[kRing];
  std::byte* guesses[kRing];
  const auto ask = [&](size_t i, RowIndex::Candidates found) __attribute__((always_inline)) {
    guesses[i % kRing] = nullptr;
    if (found.first == kNoRecord) return;
    guesses[i % kRing] = records.Address(found.first);
    PrefetchBytes(guesses[i % kRing], bytes);
    if (found.second != kNoRecord) [[unlikely]] {
      PrefetchBytes(records.Address(found.second), bytes);
    }
  };
  const auto start = [&](size_t i) __attribute__((always_inline)) {
    probes[i % kRing] = index.Start(ids[i]);
  };
  const auto guess = [&](size_t i)
                         __attribute__((always_inline)) { ask(i, index.Guess(probes[i % kRing])); };
  const size_t count = ids.size();
  for (size_t i = 0; i < std::min(count, 2 * kAhead); ++i) start(i);
  for (size_t i = 0; i < std::min(count, kAhead); ++i) guess(i);
  for (size_t i = 0; i < count; ++i) {
    if (i + 2 * kAhead < count) start(i + 2 * kAhead);
    if (i + kAhead < count) guess(i + kAhead);
    const size_t next = i + kAhead / 2;
    if (next < count && guesses[next % kRing] == nullptr) [[unlikely]] {
      ask(next, index.GuessNext(probes[next % kRing]));
    }
    std::byte* record = guesses[i % kRing];
    if (record == nullptr || HeaderOf(record).id != ids[i]) [[unlikely]] {
      const uint32_t number = index.Find(probes[i % kRing].hash, ids[i]);
      record = number != kNoRecord ? records.Address(number) : nullptr;
    }
    visit(i, record);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(RowStoreOptions options) {
  if (options.dim < 1 || options.dim > kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat("table ", options.name, ": rows of ",
                                                   options.dim, " floats; 1 to ", kMaxDim,
                                                   " are allowed"));
  }
  return std::unique_ptr<RowStore>(new RowStore(std::move(options)));
}

RowStore::RowStore(RowStoreOptions options)
    : options_(std::move(options)),
      slot_count_(options_.rule.SlotCount(options_.dim)),
      what_(absl::StrCat("rows of table ", options_.name)),
      records_((options_.dim + slot_count_) * sizeof(float), options_.budget),
      index_(records_, options_.index_seed, options_.budget) {}

absl::Status RowStore::CheckBatch(size_t id_count, size_t float_count, const char* what) const {
  if (float_count == id_count * options_.dim) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("table ", options_.name, ": ", float_count,
                                                 " floats of ", what, " for ", id_count, " ids of ",
                                                 options_.dim));
}

absl::Status RowStore::Lookup(std::span<const int64_t> ids, bool create, std::span<float> rows,
                              std::span<uint32_t> versions) {
  GW_RETURN_IF_ERROR(CheckBatch(ids.size(), rows.size(), "rows"));
  if (!versions.empty() && versions.size() != ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat("table ", options_.name, ": ", versions.size(),
                                                   " versions for ", ids.size(), " ids"));
  }
  const size_t dim = options_.dim;
  const size_t read_bytes = sizeof(RecordHeader) + dim * sizeof(float);
  const auto write = [&](size_t i, std::byte* record) {
    std::memcpy(rows.data() + i * dim, WeightsOf(record), dim * sizeof(float));
    if (!versions.empty()) versions[i] = HeaderOf(record).version;
  };
  missing_.clear();
  FindEach(index_, records_, ids, read_bytes, [&](size_t i, std::byte* record) {
    if (record != nullptr) {
      write(i, record);
    } else {
      missing_.push_back(i);
    }
  });
  if (missing_.empty()) return absl::OkStatus();
  if (!create) {
    for (const size_t i : missing_) {
      options_.init.Fill(ids[i], rows.subspan(i * dim, dim));
      if (!versions.empty()) versions[i] = 0;
    }
    return absl::OkStatus();
  }
  found_.resize(ids.size());
  GW_RETURN_IF_ERROR(CreateMissing(ids));
  for (const size_t i : missing_) write(i, found_[i]);
  return absl::OkStatus();
}

absl::Status RowStore::Touch(std::span<const int64_t> ids) {
  FindAll(ids);
  return CreateMissing(ids);
}

absl::Status RowStore::Update(double lr, std::span<const int64_t> ids,
                              std::span<const float> gradients) {
  GW_RETURN_IF_ERROR(CheckBatch(ids.size(), gradients.size(), "gradients"));
  if (ids.empty()) return absl::OkStatus();
  FindAll(ids);
  GW_RETURN_IF_ERROR(CreateMissing(ids));
  ++version_;
  const size_t dim = options_.dim;
  const size_t record_bytes = records_.record_bytes();
  for (size_t i = 0; i < std::min(kAhead, ids.size()); ++i) {
    PrefetchBytes(found_[i], record_bytes);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) {
      PrefetchBytes(found_[i + kAhead], record_bytes);
    }
    float* const weights = WeightsOf(found_[i]);
    options_.rule.Apply(lr, {weights, dim}, {weights + dim, slot_count_},
                        gradients.subspan(i * dim, dim));
    Stamp(found_[i]);
  }
  return absl::OkStatus();
}

absl::Status RowStore::Assign(std::span<const int64_t> ids, std::span<const float> rows) {
  GW_RETURN_IF_ERROR(CheckBatch(ids.size(), rows.size(), "rows"));
  if (ids.empty()) return absl::OkStatus();
  FindAll(ids);
  GW_RETURN_IF_ERROR(CreateMissing(ids));
  ++version_;
  const size_t dim = options_.dim;
  for (size_t i = 0; i < ids.size(); ++i) {
    float* const weights = WeightsOf(found_[i]);
    std::memcpy(weights, rows.data() + i * dim, dim * sizeof(float));
    options_.rule.InitSlots({weights + dim, slot_count_}, dim);
    Stamp(found_[i]);
  }
  return absl::OkStatus();
}

absl::Status RowStore::Put(const RowView& row) {
  GW_RETURN_IF_ERROR(CheckBatch(1, row.weights.size(), "weights"));
  if (row.slots.size() != slot_count_) {
    return absl::InvalidArgumentError(absl::StrCat("table ", options_.name, ": ", row.slots.size(),
                                                   " floats of slots for a row with ", slot_count_,
                                                   " (", options_.rule.ToString(), ")"));
  }
  const uint64_t hash = index_.Hash(row.id);
  uint32_t number = index_.Find(hash, row.id);
  if (number == kNoRecord) {
    GW_RETURN_IF_ERROR(ReserveRows(1));
    number = AddRecord(row.id, hash);
  }
  std::byte* const record = records_.Address(number);
  RecordHeader& header = HeaderOf(record);
  header.version = row.version;
  header.age_and_flags = (row.tick << 1) | kRecordLive;
  float* const weights = WeightsOf(record);
  std::copy(row.weights.begin(), row.weights.end(), weights);
  std::copy(row.slots.begin(), row.slots.end(), weights + options_.dim);
  return absl::OkStatus();
}

size_t RowStore::Erase(std::span<const int64_t> ids) {
  size_t erased_count = 0;
  for (const int64_t id : ids) {
    const uint64_t hash = index_.Hash(id);
    const uint32_t number = index_.Find(hash, id);
    if (number == kNoRecord) continue;
    index_.Erase(hash, number);
    records_.Remove(number);
    ++erased_count;
  }
  return erased_count;
}

absl::Status RowStore::ForEach(
    const ShardSet& shards,
    const std::function<absl::Status(VirtualShard, const RowView&)>& visit) const {
  for (uint32_t number = 0; number < records_.end_number(); ++number) {
    std::byte* const record = records_.Address(number);
    const RecordHeader& header = HeaderOf(record);
    if ((header.age_and_flags & kRecordLive) == 0) continue;
    const VirtualShard shard = ShardOf(header.id);
    if (!shards.test(shard)) continue;
    const float* const weights = WeightsOf(record);
    GW_RETURN_IF_ERROR(visit(shard, {header.id,
                                     header.version,
                                     header.age_and_flags >> 1,
                                     {weights, options_.dim},
                                     {weights + options_.dim, slot_count_}}));
  }
  return absl::OkStatus();
}

void RowStore::FindAll(std::span<const int64_t> ids) {
  found_.resize(ids.size());
  missing_.clear();
  const size_t record_bytes = records_.record_bytes();
  const size_t read_bytes =
      ids.size() * record_bytes <= kKeptBytes ? record_bytes : sizeof(RecordHeader);
  FindEach(index_, records_, ids, read_bytes, [&](size_t i, std::byte* record) {
    found_[i] = record;
    if (record == nullptr) missing_.push_back(i);
  });
}

absl::Status RowStore::CreateMissing(std::span<const int64_t> ids) {
  if (missing_.empty()) return absl::OkStatus();
  GW_RETURN_IF_ERROR(ReserveMissing(ids));
  const size_t dim = options_.dim;
  for (const size_t i : missing_) {
    const uint64_t hash = index_.Hash(ids[i]);
    const uint32_t known = index_.Find(hash, ids[i]);  // for an earlier place of the same id
    found_[i] = records_.Address(known != kNoRecord ? known : AddRecord(ids[i], hash));
    if (known != kNoRecord) continue;
    float* const weights = WeightsOf(found_[i]);
    options_.init.Fill(ids[i], {weights, dim});
    options_.rule.InitSlots({weights + dim, slot_count_}, dim);
  }
  return absl::OkStatus();
}

absl::Status RowStore::ReserveMissing(std::span<const int64_t> ids) {
  absl::Status status = ReserveRows(missing_.size());
  if (status.ok()) return status;
  // Perhaps there is room for them without the repetitions.
  std::vector<int64_t> distinct(missing_.size());
  std::transform(missing_.begin(), missing_.end(), distinct.begin(),
                 [ids](size_t i) { return ids[i]; });
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() == missing_.size()) return status;
  return ReserveRows(distinct.size());
}

absl::Status RowStore::ReserveRows(size_t count) {
  GW_RETURN_IF_ERROR(records_.Reserve(count, what_));
  return index_.Reserve(count, what_);
}

uint32_t RowStore::AddRecord(int64_t id, uint64_t hash) {
  const uint32_t number = records_.Add(id);
  index_.Insert(hash, number);
  return number;
}

void RowStore::Stamp(std::byte* record) {
  RecordHeader& header = HeaderOf(record);
  header.version = static_cast<uint32_t>(version_);
  header.age_and_flags = (tick_ << 1) | kRecordLive;
}

}  // namespace gradwire::server
