#include "rpc/agent/sequence_set.h"

#include <iterator>

namespace gradwire::rpc {

bool SequenceSet::Contains(uint64_t n) const {
  auto after = runs_.upper_bound(n);
  return after != runs_.begin() && std::prev(after)->second >= n;
}

bool SequenceSet::Insert(uint64_t n) {
  auto after = runs_.upper_bound(n);
  if (after != runs_.begin()) {
    auto before = std::prev(after);
    if (before->second >= n) return false;
    if (before->second + 1 == n) {
      before->second = n;
      if (after != runs_.end() && after->first == n + 1) {
        before->second = after->second;
        runs_.erase(after);
      }
      return true;
    }
  }
  if (after != runs_.end() && after->first == n + 1) {
    const uint64_t last = after->second;
    runs_.erase(after);
    runs_.emplace(n, last);
    return true;
  }
  runs_.emplace(n, n);
  return true;
}

void SequenceSet::PruneBelow(uint64_t n) {
  while (!runs_.empty() && runs_.begin()->second < n) runs_.erase(runs_.begin());
  if (!runs_.empty() && runs_.begin()->first < n) {
    const uint64_t last = runs_.begin()->second;
    runs_.erase(runs_.begin());
    runs_.emplace(n, last);
  }
}

}  // namespace gradwire::rpc
