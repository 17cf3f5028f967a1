// A part of the rows for training and one for judging, by a seed: the same everywhere.
#pragma once

#include <cstdint>
#include <vector>

namespace gradwire::data {

struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> test;
};

// `test_rows`: at most row_count. Both parts are in shuffled order.
Split SplitRows(int64_t row_count, int64_t test_rows, uint64_t seed);

}  // namespace gradwire::data
