// The distinct ids of a batch, and where each of its ids is among them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gradwire::worker {

struct Distinct {
  std::vector<int64_t> ids;      // in the order of their first occurrence
  std::vector<int64_t> inverse;  // ids[inverse[i]] is the batch's id i
};

Distinct FindDistinct(std::span<const int64_t> batch);

}  // namespace gradwire::worker
