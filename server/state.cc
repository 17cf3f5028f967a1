#include "server/state.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"

namespace gradwire::server {
namespace {

absl::Status NoTable(uint64_t id) {
  return absl::NotFoundError(absl::StrCat(
      "there is no table ", id, " (any more); it was dropped, or this server was started again"));
}

// The only map that there is until servers come and go while a job runs.
constexpr uint64_t kMapEpoch = 1;

absl::Status CheckEpoch(uint64_t epoch) {
  if (epoch == kMapEpoch) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the request was made with shard map ", epoch, ", this server has ", kMapEpoch));
}

}  // namespace

State::State(const ParameterServerOptions& options, size_t owner_count)
    : options(options),
      pool(Clock::Real()),
      budget(options.memory_limit_bytes),
      index_seed_(Rng::Secure().Next()) {
  for (size_t i = 0; i < owner_count; ++i) {
    owners_.push_back(std::make_unique<Owner>(absl::StrCat("gw-owner-", i)));
  }
}

State::~State() {
  // What is queued still runs, and may need the rest.
  for (const auto& owner : owners_) owner->Close();
  owners_.clear();
}

absl::StatusOr<std::shared_ptr<Table>> State::Find(uint64_t id) const {
  MutexLock lock(mu_);
  const auto found = tables_.find(id);
  if (found == tables_.end()) return NoTable(id);
  return found->second;
}

absl::StatusOr<std::shared_ptr<Table>> State::FindRows(uint64_t id, uint64_t map_epoch) const {
  GW_RETURN_IF_ERROR(CheckEpoch(map_epoch));
  GW_ASSIGN_OR_RETURN(std::shared_ptr<Table> table, Find(id));
  if (table->is_dense()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table->name(), " is dense; it has no rows"));
  }
  return table;
}

absl::StatusOr<std::shared_ptr<Table>> State::FindDense(uint64_t id, uint64_t map_epoch) const {
  GW_RETURN_IF_ERROR(CheckEpoch(map_epoch));
  GW_ASSIGN_OR_RETURN(std::shared_ptr<Table> table, Find(id));
  if (!table->is_dense()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table->name(), " has rows; it is not dense"));
  }
  return table;
}

std::shared_ptr<Table> State::FindByName(const std::string& name) const {
  MutexLock lock(mu_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : tables_.at(found->second);
}

WorkerNameId State::WorkerOf(const std::string& name) {
  MutexLock lock(mu_);
  return workers_.try_emplace(name, WorkerNameId{workers_.size() + 1}).first->second;
}

PushId State::PushOf(const rpc::CallInfo& call, uint64_t sequence) {
  return {WorkerOf(call.caller()), call.caller_incarnation(), sequence};
}

void State::OnParts(std::shared_ptr<Table> table, std::vector<size_t> parts, TaskSize size,
                    std::function<absl::Status(TablePart&)> fn,
                    absl::AnyInvocable<void(absl::Status)> then) {
  if (parts.empty()) return then(absl::OkStatus());
  struct Joint {
    std::shared_ptr<Table> table;
    std::function<absl::Status(TablePart&)> fn;
    absl::AnyInvocable<void(absl::Status)> then;
    Mutex mu;
    size_t left GW_GUARDED_BY(mu) = 0;
    absl::Status first_error GW_GUARDED_BY(mu);
    void Done(const absl::Status& status) {
      absl::Status outcome;
      {
        MutexLock lock(mu);
        first_error.Update(status);
        if (--left > 0) return;
        outcome = first_error;
      }
      then(std::move(outcome));
    }
  };
  auto joint = std::make_shared<Joint>();
  joint->table = std::move(table);
  joint->fn = std::move(fn);
  joint->then = std::move(then);
  {
    MutexLock lock(joint->mu);
    joint->left = parts.size();
  }
  for (const size_t index : parts) {
    TablePart& part = joint->table->parts()[index];
    const absl::Status posted =
        part.owner->Run(size, [joint, &part] { joint->Done(joint->fn(part)); });
    if (!posted.ok()) joint->Done(posted);
  }
}

void State::WhenSettled(const std::shared_ptr<Table>& table, TablePart& part, const PushId& after,
                        rpc::CallInfo& call, absl::AnyInvocable<void(absl::Status)> go) {
  const absl::StatusOr<bool> settled = part.window.Settled(after);
  if (!settled.ok()) return go(settled.status());
  if (*settled) return go(absl::OkStatus());
  // A ticket that nobody else has as long as it is parked.
  const auto ticket = std::make_shared<char>();
  part.parked.push_back({after, ticket.get(), std::move(go)});
  call.OnCancel([table, &part, ticket, sequence = after.sequence] {
    // The task is dropped only with the server; then nobody waits any more.
    part.owner
        ->Run(TaskSize::kShort,
              [table, &part, ticket, sequence] {
                const auto at = std::find_if(
                    part.parked.begin(), part.parked.end(),
                    [&](const Parked& parked) { return parked.ticket == ticket.get(); });
                if (at == part.parked.end()) return;
                Parked parked = std::move(*at);
                part.parked.erase(at);
                parked.go(absl::DeadlineExceededError(
                    absl::StrCat("push ", sequence, " to table ", table->name(),
                                 ", which this request waits for, has not come")));
              })
        .IgnoreError();
  });
}

void State::Wake(TablePart& part) {
  std::vector<std::pair<Parked, absl::Status>> ready;
  for (size_t i = 0; i < part.parked.size();) {
    const absl::StatusOr<bool> settled = part.window.Settled(part.parked[i].after);
    if (settled.ok() && !*settled) {
      ++i;
      continue;
    }
    ready.emplace_back(std::move(part.parked[i]), settled.status());
    part.parked.erase(part.parked.begin() + static_cast<ptrdiff_t>(i));
  }
  for (auto& [parked, status] : ready) parked.go(std::move(status));
}

}  // namespace gradwire::server
