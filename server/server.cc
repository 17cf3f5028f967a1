#include "server/server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/state.h"

namespace gradwire::server {
namespace {

constexpr size_t kMaxOwnerCount = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Create(
    const ParameterServerOptions& options) {
  if (options.owner_count > kMaxOwnerCount) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.owner_count, " owner threads; at most ", kMaxOwnerCount));
  }
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const size_t owners =
      options.owner_count != 0 ? options.owner_count : std::clamp<size_t>(cores / 2, 1, 64);
  return std::unique_ptr<ParameterServer>(
      new ParameterServer(std::make_unique<State>(options, owners)));
}

ParameterServer::ParameterServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ParameterServer::~ParameterServer() = default;

void ParameterServer::Bind(rpc::Registry& functions) {
  State* state = state_.get();
  const rpc::BindOptions quick{.run = rpc::kInline};
  const rpc::BindOptions read{.run = rpc::kInline, .repeatable = true};
  functions
      .Bind(kCreateTable,
            [state](rpc::CallInfo& call, CreateTableRequest request) {
              return state->Create(call, std::move(request));
            })
      .Bind(
          kDescribeTable, [state](const std::string& name) { return state->Describe(name); }, read)
      .Bind(kDropTable, [state](uint64_t table) { return state->Drop(table); })
      .Bind(
          kSetLearningRate,
          [state](uint64_t table, double lr) { return state->SetLearningRate(table, lr); }, quick)
      .Bind(
          kPullRows,
          [state](rpc::CallInfo& call, const PullRowsRequest& request) {
            return state->PullRows(call, request);
          },
          read)
      .Bind(
          kPushRows,
          [state](rpc::CallInfo& call, const PushRowsRequest& request) {
            return state->PushRows(call, request);
          },
          quick)
      .Bind(
          kPushPullRows,
          [state](rpc::CallInfo& call, const PushPullRowsRequest& request) {
            return state->PushPullRows(call, request);
          },
          quick)
      .Bind(
          kPullDense,
          [state](rpc::CallInfo& call, const PullDenseRequest& request) {
            return state->PullDense(call, request);
          },
          read)
      .Bind(
          kPushDense,
          [state](rpc::CallInfo& call, PushDenseRequest request) {
            return state->PushDense(call, std::move(request));
          },
          quick)
      .Bind(kStatistics, [state] { return state->Statistics(); }, read);
}

ServerStatistics ParameterServer::Statistics() const { return state_->Statistics(); }

}  // namespace gradwire::server
