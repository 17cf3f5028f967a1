// State: what the verbs of one parameter server share. Internal to server/.
//
// Thread-safety: all methods thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "rpc/agent/handler.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/future.h"
#include "rpc/base/mutex.h"
#include "server/server.h"
#include "server/table.h"

namespace gradwire::server {

// Independent totals that publish nothing else.
struct ServerCounts {
  using Count = std::atomic<uint64_t>;
  Count pulls{0};
  Count pushes{0};
  Count rows_pulled{0};
  Count rows_pushed{0};
  Count repeated_pushes{0};
  Count refused_pushes{0};
  Count nonfinite_pushes{0};
};

class State {
 public:
  explicit State(const ParameterServerOptions& options, size_t owner_count);
  ~State();

  // NOT_FOUND: no such table (any more).
  absl::StatusOr<std::shared_ptr<Table>> Find(uint64_t id) const;
  // The same, of a kind; INVALID_ARGUMENT: it is of the other.
  absl::StatusOr<std::shared_ptr<Table>> FindRows(uint64_t id, uint64_t map_epoch) const;
  absl::StatusOr<std::shared_ptr<Table>> FindDense(uint64_t id, uint64_t map_epoch) const;
  // Null: none.
  std::shared_ptr<Table> FindByName(const std::string& name) const;

  WorkerNameId WorkerOf(const std::string& name);
  PushId PushOf(const rpc::CallInfo& call, uint64_t sequence);

  // Runs fn(part) on the owner of each of `parts`, then `then` with the first error on whichever
  // thread came last. One part: both in one task.
  void OnParts(std::shared_ptr<Table> table, std::vector<size_t> parts, TaskSize size,
               std::function<absl::Status(TablePart&)> fn,
               absl::AnyInvocable<void(absl::Status)> then);

  // On the owner of `part`: go(OK) once `after` is settled there, at once or later; go(error) when
  // it never will be or the call has ended.
  void WhenSettled(const std::shared_ptr<Table>& table, TablePart& part, const PushId& after,
                   rpc::CallInfo& call, absl::AnyInvocable<void(absl::Status)> go);
  // On the owner of `part`, after Record: lets go who waited.
  void Wake(TablePart& part);

  // Verbs, one a file.
  Future<TableReply> Create(rpc::CallInfo& call, CreateTableRequest request);
  Future<TableReply> Describe(const std::string& name);
  absl::Status Drop(uint64_t id);
  absl::Status SetLearningRate(uint64_t id, double lr);
  Future<RowsReply> PullRows(rpc::CallInfo& call, const PullRowsRequest& request);
  Future<PushReply> PushRows(rpc::CallInfo& call, const PushRowsRequest& request);
  Future<RowsReply> PushPullRows(rpc::CallInfo& call, const PushPullRowsRequest& request);
  Future<DenseReply> PullDense(rpc::CallInfo& call, const PullDenseRequest& request);
  Future<PushDenseReply> PushDense(rpc::CallInfo& call, PushDenseRequest request);
  ServerStatistics Statistics() const;

  const ParameterServerOptions options;
  ServerCounts counts;
  BufferPool pool;
  MemoryBudget budget;

 private:
  struct WaitingCreate {
    uint64_t table = 0;
    const void* ticket = nullptr;
    std::shared_ptr<Promise<TableReply>> promise;
  };

  Future<TableReply> DescribeTable(std::shared_ptr<Table> table, bool created);
  absl::StatusOr<std::shared_ptr<Table>> Make(const rpc::CallInfo& call,
                                              CreateTableRequest& request, uint64_t id);

  // Each destroyed before what it uses.
  std::vector<std::unique_ptr<Owner>> owners_;
  const uint64_t index_seed_;
  mutable Mutex mu_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Table>> tables_ GW_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, uint64_t> by_name_ GW_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, WorkerNameId> workers_ GW_GUARDED_BY(mu_);
  std::vector<WaitingCreate> waiting_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::server
