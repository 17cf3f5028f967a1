// statistics: totals of this server since it was started.
#include "server/state.h"

namespace gradwire::server {

ServerStatistics State::Statistics() const {
  ServerStatistics statistics;
  {
    MutexLock lock(mu_);
    statistics.table_count = tables_.size();
  }
  const auto of = [](const ServerCounts::Count& count) {
    return count.load(std::memory_order_relaxed);
  };
  statistics.used_bytes = budget.used_bytes();
  statistics.limit_bytes = budget.limit_bytes();
  statistics.pulls = of(counts.pulls);
  statistics.pushes = of(counts.pushes);
  statistics.rows_pulled = of(counts.rows_pulled);
  statistics.rows_pushed = of(counts.rows_pushed);
  statistics.repeated_pushes = of(counts.repeated_pushes);
  statistics.refused_pushes = of(counts.refused_pushes);
  statistics.nonfinite_pushes = of(counts.nonfinite_pushes);
  return statistics;
}

}  // namespace gradwire::server
