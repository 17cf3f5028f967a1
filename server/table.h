// Table: one table as one server has it, cut into parts that have one owner each.
//
// Thread-safety: what doesn't change after Create (spec, rule, parts' places) may be read by any
//                thread; `lr` is atomic; a part's contents belong to its owner's tasks.
// Ownership:     tables are shared by the server's list and by the requests under way; owners,
//                budget and pool outlive them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "optim/rules/rule.h"
#include "server/store/dense_store.h"
#include "server/store/owner.h"
#include "server/store/push_window.h"
#include "server/store/row_store.h"
#include "server/verbs/verbs.h"

namespace gradwire::server {

// A request that waits for a push that has not come yet.
struct Parked {
  PushId after;
  const void* ticket = nullptr;
  absl::AnyInvocable<void(absl::Status)> go;
};

// What one owner has of a table.
struct TablePart {
  Owner* owner = nullptr;
  std::unique_ptr<RowStore> rows;  // of a table of rows
  std::vector<uint32_t> blocks;    // of a dense table: numbers, ascending
  PushWindow window;
  std::vector<Parked> parked;
  uint64_t version = 0;  // pushes applied here
};

class Table {
 public:
  // A table of rows, or the blocks of a dense one that are `server`'s. RESOURCE_EXHAUSTED: the
  // budget.
  static absl::StatusOr<std::shared_ptr<Table>> Create(
      TableSpec spec, uint64_t id, uint32_t server, std::string creator,
      std::span<const std::unique_ptr<Owner>> owners, MemoryBudget* budget, uint64_t index_seed);

  const TableSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  uint64_t id() const { return id_; }
  const std::string& creator() const { return creator_; }
  bool is_dense() const { return spec_.dim == 0; }
  size_t dim() const { return spec_.dim; }
  double lr() const { return lr_.load(std::memory_order_relaxed); }
  void set_lr(double lr) { lr_.store(lr, std::memory_order_relaxed); }

  std::vector<TablePart>& parts() { return parts_; }
  // Dense: all blocks of this server.
  DenseStore* blocks() { return dense_.get(); }

 private:
  Table() = default;

  TableSpec spec_;
  uint64_t id_ = 0;
  std::string creator_;
  // A number by itself; a push takes the rate that it finds.
  std::atomic<double> lr_{0};
  std::unique_ptr<DenseStore> dense_;
  std::vector<TablePart> parts_;
};

}  // namespace gradwire::server
