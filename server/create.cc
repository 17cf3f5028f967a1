// create_table: the first creator's values and rule win; everybody else finds what is there.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/rng.h"
#include "rpc/base/status.h"
#include "server/requests.h"
#include "server/state.h"

namespace gradwire::server {
namespace {

constexpr size_t kMaxNameBytes = 128;

absl::Status CheckName(const std::string& name) {
  if (!name.empty() && name.size() <= kMaxNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a table's name has 1 to ", kMaxNameBytes,
                                                 " characters, this one has ", name.size()));
}

absl::Status CheckSame(const Table& table, const TableSpec& wanted) {
  const std::string there = ToString(table.spec());
  const std::string here = ToString(wanted);
  // Their texts leave out sizes when there are many.
  if (there == here && table.spec().element_counts == wanted.element_counts) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "table ", table.name(), " was created by ", table.creator(), " as {", there,
      "}; it can't also be {", here, "}: use one definition, another name, or drop it"));
}

absl::Status CheckValues(const Table& table, const CreateTableRequest& request) {
  if (!table.is_dense()) {
    if (request.values.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("table ", table.name(), " has rows; they have no values at its creation"));
  }
  size_t block_count = 0;
  for (const TablePart& part : const_cast<Table&>(table).parts()) block_count += part.blocks.size();
  if (request.values.size() != block_count) {
    return absl::InvalidArgumentError(absl::StrCat("table ", table.name(), " has ", block_count,
                                                   " blocks on this server, and values for ",
                                                   request.values.size(), " came"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Table>> State::Make(const rpc::CallInfo& call,
                                                   CreateTableRequest& request, uint64_t id) {
  GW_ASSIGN_OR_RETURN(std::shared_ptr<Table> table,
                      Table::Create(request.spec, id, request.server, call.caller(), owners_,
                                    &budget, index_seed_));
  GW_RETURN_IF_ERROR(CheckValues(*table, request));
  if (DenseStore* blocks = table->blocks()) {
    // Nobody knows the table yet, so that its owners need not be asked.
    for (size_t i = 0; i < request.values.size(); ++i) {
      DenseBlock* block = blocks->Find(blocks->numbers()[i]);
      const std::string what =
          absl::StrCat("initial values of block ", blocks->numbers()[i], " of ", table->name());
      GW_ASSIGN_OR_RETURN(const Elements<float> values,
                          ParseBlock(request.values[i], block->count(), what));
      if (const size_t bad = FirstNonFinite(values.values()); bad != values.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(what, ": number ", bad, " is ", values.values()[bad]));
      }
      GW_RETURN_IF_ERROR(block->Assign(values.values()));
    }
  }
  return table;
}

Future<TableReply> State::Create(rpc::CallInfo& call, CreateTableRequest request) {
  if (absl::Status name = CheckName(request.spec.name); !name.ok()) {
    return Future<TableReply>(std::move(name));
  }
  if (request.server >= request.spec.server_count || request.spec.server_count > kMaxServerCount) {
    return Future<TableReply>(absl::InvalidArgumentError(
        absl::StrCat("table ", request.spec.name, ": server ", request.server, " of ",
                     request.spec.server_count, " (at most ", kMaxServerCount, ")")));
  }
  const bool home = request.server == 0;
  std::shared_ptr<Table> table;
  bool created = false;
  std::vector<std::shared_ptr<Promise<TableReply>>> waiting;
  {
    MutexLock lock(mu_);
    const auto named = by_name_.find(request.spec.name);
    if (named != by_name_.end()) {
      table = tables_.at(named->second);
      if (absl::Status same = CheckSame(*table, request.spec); !same.ok()) {
        return Future<TableReply>(std::move(same));
      }
      if (!home && table->id() != request.table) {
        // It was dropped and created again, which has not come through here.
        return Future<TableReply>(absl::AbortedError(
            absl::StrCat("table ", table->name(), " is created and dropped at the same time")));
      }
    } else if (!home && !request.create) {
      // Its creator has been at server 0 and is on its way here.
      auto promise = std::make_shared<Promise<TableReply>>();
      Future<TableReply> future = promise->future();
      waiting_.push_back({request.table, promise.get(), promise});
      call.OnCancel([this, ticket = promise.get(), name = request.spec.name] {
        std::shared_ptr<Promise<TableReply>> late;
        {
          MutexLock lock(mu_);
          for (size_t i = 0; i < waiting_.size(); ++i) {
            if (waiting_[i].ticket != ticket) continue;
            late = std::move(waiting_[i].promise);
            waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
            break;
          }
        }
        if (late == nullptr) return;
        late->Set(absl::DeadlineExceededError(absl::StrCat(
            "whoever creates table ", name, " has not done so here; if it died, drop the table")));
      });
      return future;
    } else {
      if (tables_.size() >= kMaxTableCount) {
        return Future<TableReply>(absl::ResourceExhaustedError(
            absl::StrCat("this server has ", tables_.size(), " tables, its limit; drop some")));
      }
      // 0 says none. Of a home server the numbers are random, so that those of its next life
      // differ.
      uint64_t id = request.table;
      while (home && (id == 0 || tables_.contains(id))) id = Rng::Secure().Next();
      if (id == 0 || tables_.contains(id)) {
        return Future<TableReply>(absl::InvalidArgumentError(
            absl::StrCat("table ", request.spec.name, " can't have the number ", id)));
      }
      // Under the lock: a creation is rare, and the next one must find this one.
      absl::StatusOr<std::shared_ptr<Table>> made = Make(call, request, id);
      if (!made.ok()) {
        return Future<TableReply>(
            WithContext(made.status(), absl::StrCat("creating table ", request.spec.name)));
      }
      table = *std::move(made);
      created = true;
      tables_[id] = table;
      by_name_[table->name()] = id;
      for (size_t i = 0; i < waiting_.size();) {
        if (waiting_[i].table != id) {
          ++i;
          continue;
        }
        waiting.push_back(std::move(waiting_[i].promise));
        waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }
  for (const auto& promise : waiting) {
    DescribeTable(table, false).OnReady([promise](const absl::StatusOr<TableReply>& reply) {
      promise->Set(reply);
    });
  }
  return DescribeTable(std::move(table), created);
}

}  // namespace gradwire::server
