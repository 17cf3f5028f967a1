#include "worker/data/split.h"

#include <algorithm>
#include <utility>

#include "rpc/base/rng.h"

namespace gradwire::data {

Split SplitRows(int64_t row_count, int64_t test_rows, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(row_count));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  SeededRng rng(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
  const auto cut = order.begin() + std::min(test_rows, row_count);
  return {.train = {cut, order.end()}, .test = {order.begin(), cut}};
}

}  // namespace gradwire::data
