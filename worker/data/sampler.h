// ShardedSampler: which rows a worker sees, in which order.
//
// Each epoch the rows are shuffled anew, by (seed, epoch) alone and so alike for all workers; rank
// r takes places r, r + world, r + 2·world, … of that order. Every row comes once an epoch over all
// ranks. Where they don't divide evenly some ranks have one row more; the last batch of an epoch
// may be short. (libtorch's C++ DistributedRandomSampler repeats rows to make shards even.)
//
// Thread-safety: one thread at a time.
// Limits:        row_count below 2^40, so that an order fits into memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace gradwire::data {

struct SamplerOptions {
  int64_t row_count = 0;
  int64_t batch_rows = 0;
  int64_t epochs = 1;
  int rank = 0;
  int world = 1;
  uint64_t seed = 0;
};

class ShardedSampler {
 public:
  // INVALID_ARGUMENT: naming what is not positive, or a rank outside its world.
  static absl::StatusOr<ShardedSampler> Create(const SamplerOptions& options);

  // The rows of the next batch and the epoch that it belongs to, from 1. False: that was all.
  bool Next(std::vector<int64_t>& rows, int64_t& epoch);

  // Rows of this rank in all epochs.
  int64_t planned_rows() const { return shard_rows_ * options_.epochs; }

 private:
  explicit ShardedSampler(const SamplerOptions& options);
  void Shuffle();

  SamplerOptions options_;
  int64_t shard_rows_ = 0;
  int64_t epoch_ = 0;  // the one that runs, from 1; 0: none
  int64_t next_ = 0;   // place in this rank's shard
  std::vector<int64_t> order_;
};

}  // namespace gradwire::data
