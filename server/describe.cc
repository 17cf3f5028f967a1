// describe_table, set_learning_rate, and what a table says of itself.
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/status.h"
#include "server/state.h"

namespace gradwire::server {
namespace {

std::vector<size_t> AllParts(Table& table) {
  std::vector<size_t> all(table.parts().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace

Future<TableReply> State::DescribeTable(std::shared_ptr<Table> table, bool created) {
  struct Joint {
    Mutex mu;
    TableReply reply GW_GUARDED_BY(mu);
    Promise<TableReply> promise;
  };
  auto joint = std::make_shared<Joint>();
  {
    MutexLock lock(joint->mu);
    TableReply& reply = joint->reply;
    reply.table = table->id();
    reply.created = created;
    reply.lr = table->lr();
    reply.creator = table->creator();
    reply.spec = table->spec();
    if (table->is_dense()) reply.resident_bytes = table->blocks()->resident_bytes();
  }
  Future<TableReply> future = joint->promise.future();
  Table& shown = *table;
  OnParts(
      std::move(table), AllParts(shown), TaskSize::kShort,
      [joint](TablePart& part) {
        MutexLock lock(joint->mu);
        if (part.rows != nullptr) {
          joint->reply.row_count += part.rows->row_count();
          joint->reply.resident_bytes += part.rows->resident_bytes();
        }
        joint->reply.version = std::max(joint->reply.version, part.version);
        return absl::OkStatus();
      },
      [joint](absl::Status status) {
        if (!status.ok()) {
          joint->promise.Set(std::move(status));
          return;
        }
        TableReply reply;
        {
          MutexLock lock(joint->mu);
          reply = std::move(joint->reply);
        }
        joint->promise.Set(std::move(reply));
      });
  return future;
}

Future<TableReply> State::Describe(const std::string& name) {
  std::shared_ptr<Table> table = FindByName(name);
  if (table != nullptr) return DescribeTable(std::move(table), false);
  std::vector<std::string> known;
  {
    MutexLock lock(mu_);
    for (const auto& [other, id] : by_name_) known.push_back(other);
  }
  std::sort(known.begin(), known.end());
  if (known.size() > 16) known.resize(16);
  return Future<TableReply>(absl::NotFoundError(
      absl::StrCat("there is no table ", name, " here; there are: ", absl::StrJoin(known, ", "))));
}

absl::Status State::SetLearningRate(uint64_t id, double lr) {
  GW_ASSIGN_OR_RETURN(const std::shared_ptr<Table> table, Find(id));
  if (!std::isfinite(lr) || lr < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a learning rate of ", lr, " for table ",
                                                   table->name(),
                                                   "; it must be finite and not negative"));
  }
  table->set_lr(lr);
  return absl::OkStatus();
}

}  // namespace gradwire::server
