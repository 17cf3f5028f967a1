// The verbs of a parameter server as functions, and their requests and replies: what server/ binds
// and worker/client calls. README.md is the specification.
//
// Shapes:        ids: int64 [n], not negative; rows and gradients of rows: float32 [n, dim];
//                a dense block: float32 [count]. Row-major.
// Numbers:       `table` is the id that kCreateTable gave, never reused. `sequence` counts a
//                client's pushes to one table from 1; `after` is one of them, 0 = none.
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "optim/rules/init.h"
#include "optim/rules/rule.h"
#include "rpc/function.h"
#include "rpc/tensor/values.h"

namespace gradwire::server {

// optim::NamedRule as it travels.
struct RuleSpec {
  std::string name = {};
  std::vector<std::pair<std::string, double>> options = {};
  GW_FIELDS(name, options);
};

// optim::InitOptions as it travels; `kind` is the enum's number.
struct InitSpec {
  uint8_t kind = 0;
  double a = 0;
  double b = 0;
  GW_FIELDS(kind, a, b);
};

// What a table is. Two that differ are different tables; the name is what they are known by.
struct TableSpec {
  std::string name = {};
  RuleSpec rule = {};
  // Dense: elements of each tensor, in order; their cut into blocks follows (DenseLayout).
  std::vector<uint64_t> element_counts = {};
  // Rows: floats of a row, not 0; their initial values. 0 for a dense table.
  uint64_t dim = 0;
  InitSpec init = {};
  uint64_t seed = 0;
  // The list of servers that it is spread over, by its length.
  uint32_t server_count = 1;
  GW_FIELDS(name, rule, element_counts, dim, init, seed, server_count);
};

struct CreateTableRequest {
  TableSpec spec = {};
  // The place of the callee in the list of servers. Server 0 decides who creates.
  uint32_t server = 0;
  // Servers other than 0: the id that server 0 gave.
  uint64_t table = 0;
  // False: another client creates it; wait until it has done so here.
  bool create = true;
  // Dense, `create`: initial values of this server's blocks, in the order of their numbers.
  std::vector<rpc::TensorView> values = {};
  GW_FIELDS(spec, server, table, create, values);
};

struct TableReply {
  uint64_t table = 0;
  // This call made it. False: it was there, with the same spec.
  bool created = false;
  double lr = 0;
  std::string creator = {};  // who made it
  uint64_t row_count = 0;
  uint64_t resident_bytes = 0;
  uint64_t version = 0;
  TableSpec spec = {};
  GW_FIELDS(table, created, lr, creator, row_count, resident_bytes, version, spec);
};

struct PullRowsRequest {
  uint64_t table = 0;
  uint64_t map_epoch = 1;
  uint64_t after = 0;
  // False: unknown rows are answered with their initial value and don't come into being.
  bool create = true;
  rpc::TensorView ids = {};
  GW_FIELDS(table, map_epoch, after, create, ids);
};

struct RowsReply {
  uint64_t version = 0;
  rpc::TensorView rows = {};
  GW_FIELDS(version, rows);
};

struct PushRowsRequest {
  uint64_t table = 0;
  uint64_t map_epoch = 1;
  uint64_t sequence = 0;
  uint64_t finished_below = 0;
  rpc::TensorView ids = {};
  rpc::TensorView gradients = {};
  GW_FIELDS(table, map_epoch, sequence, finished_below, ids, gradients);
};

struct PushReply {
  // Of the table's part on this server, after the push.
  uint64_t version = 0;
  // The gradient was not finite and the server was told to skip such pushes.
  bool skipped = false;
  GW_FIELDS(version, skipped);
};

struct PushPullRowsRequest {
  PushRowsRequest push = {};
  PullRowsRequest pull = {};  // its `after` is the push
  GW_FIELDS(push, pull);
};

struct PullDenseRequest {
  uint64_t table = 0;
  uint64_t map_epoch = 1;
  uint64_t after = 0;
  GW_FIELDS(table, map_epoch, after);
};

struct DenseReply {
  // One a block, as are `blocks`: this server's, in the order of their numbers.
  std::vector<uint64_t> versions = {};
  std::vector<rpc::TensorView> blocks = {};
  GW_FIELDS(versions, blocks);
};

struct PushDenseRequest {
  uint64_t table = 0;
  uint64_t map_epoch = 1;
  uint64_t sequence = 0;
  uint64_t finished_below = 0;
  std::vector<rpc::TensorView> gradients =
      {};  // of this server's blocks, in the order of their numbers
  // True: answer with the blocks as they are after the push.
  bool pull = false;
  GW_FIELDS(table, map_epoch, sequence, finished_below, gradients, pull);
};

struct PushDenseReply {
  uint64_t version = 0;
  bool skipped = false;
  DenseReply after = {};  // empty unless asked for
  GW_FIELDS(version, skipped, after);
};

struct ServerStatistics {
  uint64_t table_count = 0;
  uint64_t used_bytes = 0;
  uint64_t limit_bytes = 0;
  uint64_t pulls = 0;
  uint64_t pushes = 0;
  uint64_t rows_pulled = 0;
  uint64_t rows_pushed = 0;
  uint64_t repeated_pushes = 0;
  uint64_t refused_pushes = 0;
  uint64_t nonfinite_pushes = 0;
  GW_FIELDS(table_count, used_bytes, limit_bytes, pulls, pushes, rows_pulled, rows_pushed,
            repeated_pushes, refused_pushes, nonfinite_pushes);
};

inline constexpr rpc::Function<TableReply(CreateTableRequest)> kCreateTable{
    "gradwire.ps.create_table"};
inline constexpr rpc::Function<TableReply(std::string)> kDescribeTable{
    "gradwire.ps.describe_table"};
inline constexpr rpc::Function<void(uint64_t)> kDropTable{"gradwire.ps.drop_table"};
// Table, learning rate.
inline constexpr rpc::Function<void(uint64_t, double)> kSetLearningRate{
    "gradwire.ps.set_learning_rate"};
inline constexpr rpc::Function<RowsReply(PullRowsRequest)> kPullRows{"gradwire.ps.pull_rows"};
inline constexpr rpc::Function<PushReply(PushRowsRequest)> kPushRows{"gradwire.ps.push_rows"};
inline constexpr rpc::Function<RowsReply(PushPullRowsRequest)> kPushPullRows{
    "gradwire.ps.push_pull_rows"};
inline constexpr rpc::Function<DenseReply(PullDenseRequest)> kPullDense{"gradwire.ps.pull_dense"};
inline constexpr rpc::Function<PushDenseReply(PushDenseRequest)> kPushDense{
    "gradwire.ps.push_dense"};
inline constexpr rpc::Function<ServerStatistics()> kStatistics{"gradwire.ps.statistics"};

RuleSpec ToSpec(const optim::Rule& rule);
InitSpec ToSpec(const optim::InitOptions& init);
// INVALID_ARGUMENT: what Rule::FromNamed refuses; a kind that is none.
absl::StatusOr<optim::Rule> RuleOf(const RuleSpec& spec);
absl::StatusOr<optim::InitOptions> InitOf(const InitSpec& spec);
// "dense [802816, 1024], sgd(lr=0.1, …), 2 servers": what messages show.
std::string ToString(const TableSpec& spec);
// The number of the table in its rows' initial values: of its name, the same on every server.
uint64_t InitNumber(const std::string& table_name);

}  // namespace gradwire::server
