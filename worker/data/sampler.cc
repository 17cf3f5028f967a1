#include "worker/data/sampler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"

namespace gradwire::data {
namespace {

constexpr int64_t kMaxRowCount = int64_t{1} << 40;
// An odd number, so that epochs of one seed and seeds of one epoch all give other orders.
constexpr uint64_t kEpochStep = 0x9e3779b97f4a7c15;

}  // namespace

absl::StatusOr<ShardedSampler> ShardedSampler::Create(const SamplerOptions& options) {
  if (options.row_count < 0 || options.row_count > kMaxRowCount) {
    return absl::InvalidArgumentError(
        absl::StrCat("a dataset of ", options.row_count, " rows; at most ", kMaxRowCount));
  }
  if (options.batch_rows <= 0 || options.epochs < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batches of ", options.batch_rows, " rows, ",
                                                   options.epochs,
                                                   " epochs; rows must be positive"));
  }
  if (options.world <= 0 || options.rank < 0 || options.rank >= options.world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.world, " workers"));
  }
  return ShardedSampler(options);
}

ShardedSampler::ShardedSampler(const SamplerOptions& options) : options_(options) {
  if (options.rank < options.row_count) {
    shard_rows_ = (options.row_count - options.rank + options.world - 1) / options.world;
  }
}

// Fisher and Yates, as Durstenfeld wrote it (1964).
void ShardedSampler::Shuffle() {
  order_.resize(static_cast<size_t>(options_.row_count));
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
  SeededRng rng(options_.seed + kEpochStep * static_cast<uint64_t>(epoch_));
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[rng.Below(i)]);
}

bool ShardedSampler::Next(std::vector<int64_t>& rows, int64_t& epoch) {
  rows.clear();
  if (shard_rows_ == 0) return false;
  if (epoch_ == 0 || next_ == shard_rows_) {
    if (epoch_ >= options_.epochs) return false;
    ++epoch_;
    next_ = 0;
    Shuffle();
  }
  const int64_t end = std::min(shard_rows_, next_ + options_.batch_rows);
  for (; next_ < end; ++next_) {
    rows.push_back(order_[static_cast<size_t>(options_.rank + next_ * options_.world)]);
  }
  epoch = epoch_;
  return true;
}

}  // namespace gradwire::data
