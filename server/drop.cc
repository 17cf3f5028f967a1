// drop_table: forgets a table; requests under way end as they would have.
#include <utility>

#include "server/state.h"

namespace gradwire::server {

absl::Status State::Drop(uint64_t id) {
  std::shared_ptr<Table> table;
  MutexLock lock(mu_);
  const auto found = tables_.find(id);
  if (found == tables_.end()) return absl::OkStatus();  // repeated
  table = std::move(found->second);
  tables_.erase(found);
  by_name_.erase(table->name());
  lock.Unlock();
  return absl::OkStatus();
}

}  // namespace gradwire::server
