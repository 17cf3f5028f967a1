// DenseBlock, DenseStore: one server's blocks of one dense table.
//
// A block is weights, the rule's slots and a version that counts its updates. A reader gets a block
// whole; blocks of a table may differ in version.
//
// Shapes:        weights, gradient: float32 [count].
// Ownership:     a store owns its blocks and their memory, which counts in the budget; the budget
//                must outlive it.
// Thread-safety: a block, one thread at a time; different blocks are independent, so that a store
// may
//                have several owners. The store itself doesn't change once it is made.
// Limits:        the budget -> RESOURCE_EXHAUSTED.
// Errors:        INVALID_ARGUMENT: sizes that don't fit, a rule for rows alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optim/rules/rule.h"
#include "server/store/dense_layout.h"
#include "server/store/memory_budget.h"
#include "server/store/page_memory.h"

namespace gradwire::server {

class DenseBlock {
 public:
  // One step of the rule.
  absl::Status Apply(double lr, std::span<const float> gradient);
  // Sets the weights, and the slots to what they are before the first gradient; counts as an
  // update.
  absl::Status Assign(std::span<const float> weights);
  // Sets everything, for restoring.
  absl::Status Restore(std::span<const float> weights, std::span<const float> slots,
                       uint64_t version);
  // out: [count()].
  absl::Status CopyTo(std::span<float> out) const;

  size_t count() const { return weights_.size(); }
  uint64_t version() const { return version_; }
  // Valid until the block is changed.
  std::span<const float> weights() const { return weights_; }
  std::span<const float> slots() const { return slots_; }

 private:
  friend class DenseStore;
  // Weights stay as they are (0 in fresh memory); slots as the rule starts them.
  DenseBlock(const optim::Rule& rule, std::span<float> weights, std::span<float> slots);
  absl::Status CheckCount(size_t count, const char* what) const;

  const optim::Rule* rule_;
  std::span<float> weights_;
  std::span<float> slots_;
  uint64_t version_ = 0;
};

struct DenseStoreOptions {
  optim::Rule rule = {};
  // Default: no limit. Not owned.
  MemoryBudget* budget = nullptr;
  // Default: "". The table, for messages.
  std::string name = {};
};

class DenseStore {
 public:
  // The blocks of `layout` that are `server`'s. All or nothing.
  static absl::StatusOr<std::unique_ptr<DenseStore>> Create(DenseStoreOptions options,
                                                            const DenseLayout& layout,
                                                            size_t server);
  DenseStore(const DenseStore&) = delete;
  DenseStore& operator=(const DenseStore&) = delete;

  // By the layout's number of the block; null for those of other servers and for unknown ones.
  DenseBlock* Find(uint32_t block);
  const DenseBlock* Find(uint32_t block) const;
  // Numbers of the blocks it holds, ascending.
  std::span<const uint32_t> numbers() const { return numbers_; }

  const optim::Rule& rule() const { return options_.rule; }
  uint64_t element_count() const { return element_count_; }
  size_t resident_bytes() const { return share_.held_bytes(); }

 private:
  explicit DenseStore(DenseStoreOptions options);

  // Floats that a block takes: weights and slots, each from a cache line on.
  static size_t PaddedFloats(size_t count);

  const DenseStoreOptions options_;
  BudgetShare share_;
  PageMemory memory_;  // of all blocks
  std::vector<uint32_t> numbers_;
  std::vector<DenseBlock> blocks_;
  uint64_t element_count_ = 0;
};

}  // namespace gradwire::server
