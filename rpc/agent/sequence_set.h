// A set of sequence numbers that mostly come in order: kept as runs, so that a million of them cost
// one entry. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/btree_map.h"

namespace gradwire::rpc {

class SequenceSet {
 public:
  bool Contains(uint64_t n) const;
  // False: it was in already.
  bool Insert(uint64_t n);
  // Forgets everything below `n`; Contains() of those is false from then on.
  void PruneBelow(uint64_t n);
  size_t run_count() const { return runs_.size(); }

 private:
  absl::btree_map<uint64_t, uint64_t> runs_;  // first -> last, disjoint, not adjacent
};

}  // namespace gradwire::rpc
