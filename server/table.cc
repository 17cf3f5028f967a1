#include "server/table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire::server {

absl::StatusOr<std::shared_ptr<Table>> Table::Create(TableSpec spec, uint64_t id, uint32_t server,
                                                     std::string creator,
                                                     std::span<const std::unique_ptr<Owner>> owners,
                                                     MemoryBudget* budget, uint64_t index_seed) {
  std::shared_ptr<Table> table(new Table());
  GW_ASSIGN_OR_RETURN(const optim::Rule rule, RuleOf(spec.rule));
  table->lr_ = rule.lr();
  table->parts_.resize(owners.size());
  for (size_t i = 0; i < owners.size(); ++i) table->parts_[i].owner = owners[i].get();
  if (spec.dim != 0) {
    GW_ASSIGN_OR_RETURN(const optim::InitOptions options, InitOf(spec.init));
    GW_ASSIGN_OR_RETURN(const optim::Initializer init,
                        optim::Initializer::Create(options, spec.seed, InitNumber(spec.name)));
    for (TablePart& part : table->parts_) {
      GW_ASSIGN_OR_RETURN(part.rows, RowStore::Create({.dim = spec.dim,
                                                       .rule = rule,
                                                       .init = init,
                                                       .budget = budget,
                                                       .name = spec.name,
                                                       .index_seed = index_seed}));
    }
  } else {
    GW_ASSIGN_OR_RETURN(const DenseLayout layout,
                        DenseLayout::Create(spec.element_counts, spec.server_count));
    GW_ASSIGN_OR_RETURN(
        table->dense_,
        DenseStore::Create({.rule = rule, .budget = budget, .name = spec.name}, layout, server));
    size_t next = 0;
    for (const uint32_t block : table->dense_->numbers()) {
      table->parts_[next++ % owners.size()].blocks.push_back(block);
    }
  }
  table->spec_ = std::move(spec);
  table->id_ = id;
  table->creator_ = std::move(creator);
  return table;
}

}  // namespace gradwire::server
