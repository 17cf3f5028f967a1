#include "worker/client/distinct.h"

#include "absl/container/flat_hash_map.h"

namespace gradwire::worker {

Distinct FindDistinct(std::span<const int64_t> batch) {
  Distinct distinct;
  distinct.ids.reserve(batch.size());
  distinct.inverse.reserve(batch.size());
  absl::flat_hash_map<int64_t, int64_t> places;
  places.reserve(batch.size());
  for (const int64_t id : batch) {
    const auto [at, is_new] = places.try_emplace(id, static_cast<int64_t>(distinct.ids.size()));
    if (is_new) distinct.ids.push_back(id);
    distinct.inverse.push_back(at->second);
  }
  return distinct;
}

}  // namespace gradwire::worker
