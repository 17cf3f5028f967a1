// push_rows, push_dense, push_pull_rows: one step of the table's rule, applied once.
//
// A push is checked by every part of the table that it concerns before any of them applies it; what
// is left then can't fail. Each part remembers it beside the rows (PushWindow).
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "server/pull.h"
#include "server/requests.h"
#include "server/state.h"

namespace gradwire::server {
namespace {

// As for pulls; an update costs about twice as much.
constexpr size_t kShortFloats = size_t{8} << 10;

struct PushOp {
  std::shared_ptr<Table> table;
  PushId push;
  uint64_t finished_below = 0;
  std::vector<size_t> parts;
  TaskSize size = TaskSize::kShort;
  // On the owner, in this order. check: whether the gradient can be applied; OK: it will be.
  std::function<absl::Status(TablePart&)> check;
  std::function<absl::Status(TablePart&)> apply;
  // On the owner, also for a push that was applied before.
  std::function<void(TablePart&)> after = [](TablePart&) {};
  std::function<void(absl::Status, PushReply)> done;

  std::atomic<bool> skip{false};  // published by the join of the checks
  std::atomic<bool> repeated{false};
  std::atomic<uint64_t> version{0};  // the largest of the parts'
};

absl::Status RefusedBefore(const PushOp& op) {
  return absl::FailedPreconditionError(absl::StrCat("push ", op.push.sequence, " to table ",
                                                    op.table->name(),
                                                    " was refused when it came first"));
}

absl::Status Prepare(PushOp& op, TablePart& part) {
  GW_ASSIGN_OR_RETURN(const std::optional<PushAnswer> seen,
                      part.window.Admit(op.push, op.finished_below));
  if (seen) return seen->refused ? RefusedBefore(op) : absl::OkStatus();
  return op.check(part);
}

absl::Status Commit(PushOp& op, TablePart& part) {
  GW_ASSIGN_OR_RETURN(const std::optional<PushAnswer> seen,
                      part.window.Admit(op.push, op.finished_below));
  uint64_t version = part.version;
  if (seen) {
    op.repeated.store(true, std::memory_order_relaxed);
    version = seen->version;
  } else {
    if (!op.skip.load(std::memory_order_relaxed)) {
      GW_RETURN_IF_ERROR(op.apply(part));
      version = ++part.version;
    }
    part.window.Record(op.push, {.version = version});
  }
  op.after(part);
  uint64_t highest = op.version.load(std::memory_order_relaxed);
  while (highest < version &&
         !op.version.compare_exchange_weak(highest, version, std::memory_order_relaxed)) {
  }
  return absl::OkStatus();
}

// A push that is refused is settled all the same: whoever waits for it goes on.
void Refuse(State& state, const std::shared_ptr<Table>& table, const PushId& push,
            uint64_t finished_below) {
  state.counts.refused_pushes.fetch_add(1, std::memory_order_relaxed);
  std::vector<size_t> all(table->parts().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  state.OnParts(
      table, all, TaskSize::kShort,
      [&state, push, finished_below](TablePart& part) {
        const absl::StatusOr<std::optional<PushAnswer>> seen =
            part.window.Admit(push, finished_below);
        if (seen.ok() && !*seen) {
          part.window.Record(push, {.version = part.version, .refused = true});
          state.Wake(part);
        }
        return absl::OkStatus();
      },
      [](const absl::Status&) {});
}

void Finish(State& state, const std::shared_ptr<PushOp>& op, absl::Status status) {
  if (!status.ok()) {
    // What a fence or a replay refuses is no push of this life.
    if (!absl::IsFailedPrecondition(status) && !absl::IsCancelled(status)) {
      Refuse(state, op->table, op->push, op->finished_below);
    }
    return op->done(WithContext(status, absl::StrCat("pushing to table ", op->table->name())), {});
  }
  state.counts.pushes.fetch_add(1, std::memory_order_relaxed);
  if (op->repeated) state.counts.repeated_pushes.fetch_add(1, std::memory_order_relaxed);
  op->done(absl::OkStatus(), {.version = op->version, .skipped = op->skip});
}

void RunPush(State& state, const std::shared_ptr<PushOp>& op) {
  if (op->parts.empty()) op->parts = {0};  // an empty push is numbered and remembered like others
  const auto commit = [&state, op](TablePart& part) {
    const absl::Status status = Commit(*op, part);
    if (status.ok()) state.Wake(part);
    return status;
  };
  const auto finish = [&state, op](absl::Status status) { Finish(state, op, std::move(status)); };
  if (op->parts.size() == 1) {
    return state.OnParts(
        op->table, op->parts, op->size,
        [op, commit](TablePart& part) {
          GW_RETURN_IF_ERROR(Prepare(*op, part));
          return commit(part);
        },
        finish);
  }
  state.OnParts(
      op->table, op->parts, op->size, [op](TablePart& part) { return Prepare(*op, part); },
      [&state, op, commit, finish](absl::Status status) {
        if (!status.ok()) return finish(std::move(status));
        state.OnParts(op->table, op->parts, op->size, commit, finish);
      });
}

// NaN or infinity in a gradient: what the server was told to do. `values` may be replaced by
// `clipped`.
absl::Status CheckFinite(State& state, PushOp& op, std::span<const float>& values,
                         std::vector<float>& clipped, absl::string_view what) {
  const size_t bad = FirstNonFinite(values);
  if (bad == values.size()) return absl::OkStatus();
  state.counts.nonfinite_pushes.fetch_add(1, std::memory_order_relaxed);
  switch (state.options.nonfinite) {
    case NonFinite::kRefuse:
      return absl::InvalidArgumentError(
          absl::StrCat("number ", bad, " of the ", what, " is ", values[bad],
                       "; the push was refused (--nonfinite=clip or skip would have taken it)"));
    case NonFinite::kSkip:
      op.skip.store(true, std::memory_order_relaxed);
      return absl::OkStatus();
    case NonFinite::kClip:
      break;
  }
  constexpr float kLargest = std::numeric_limits<float>::max();
  clipped.assign(values.begin(), values.end());
  for (float& value : clipped) {
    if (std::isnan(value)) value = 0;
    if (std::isinf(value)) value = std::copysign(kLargest, value);
  }
  values = clipped;
  return absl::OkStatus();
}

// One part's share of a push of rows.
struct RowsShare {
  std::span<const int64_t> ids;
  std::span<const float> gradients;
  std::vector<float> gathered;  // of several parts
  std::vector<float> clipped;
};

struct RowsPush {
  Elements<int64_t> ids;
  Elements<float> gradients;
  std::vector<PartSlice> slices;
  std::vector<RowsShare> shares;  // one a part
};

void CutShares(RowsPush& push, size_t part_count, size_t dim) {
  push.shares.resize(part_count);
  if (part_count == 1) {
    push.shares[0].ids = push.ids.values();
    push.shares[0].gradients = push.gradients.values();
    return;
  }
  push.slices = SliceByPart(push.ids.values(), part_count);
  for (size_t i = 0; i < part_count; ++i) {
    RowsShare& share = push.shares[i];
    for (const uint32_t place : push.slices[i].places) {
      const auto row = push.gradients.values().subspan(place * dim, dim);
      share.gathered.insert(share.gathered.end(), row.begin(), row.end());
    }
    share.ids = push.slices[i].ids;
    share.gradients = share.gathered;
  }
}

size_t IndexOf(Table& table, const TablePart& part) {
  return static_cast<size_t>(&part - table.parts().data());
}

absl::Status CheckSequence(uint64_t sequence, const Table& table) {
  if (sequence != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a push to table ", table.name(), " without a number"));
}

}  // namespace

Future<PushReply> State::PushRows(rpc::CallInfo& call, const PushRowsRequest& request) {
  const auto push = std::make_shared<RowsPush>();
  const auto op = std::make_shared<PushOp>();
  const auto promise = std::make_shared<Promise<PushReply>>();
  absl::StatusOr<std::shared_ptr<Table>> found = FindRows(request.table, request.map_epoch);
  if (!found.ok()) return Future<PushReply>(found.status());
  op->table = *std::move(found);
  op->push = PushOf(call, request.sequence);
  op->finished_below = request.finished_below;
  const size_t dim = op->table->dim();
  const absl::Status parsed = [&]() -> absl::Status {
    GW_RETURN_IF_ERROR(CheckSequence(request.sequence, *op->table));
    const std::string of = absl::StrCat("of table ", op->table->name());
    GW_ASSIGN_OR_RETURN(push->ids, ParseIds(request.ids, absl::StrCat("ids ", of)));
    GW_ASSIGN_OR_RETURN(push->gradients, ParseRows(request.gradients, push->ids.size(), dim,
                                                   absl::StrCat("gradients ", of)));
    return absl::OkStatus();
  }();
  if (!parsed.ok()) {
    if (request.sequence != 0) Refuse(*this, op->table, op->push, op->finished_below);
    return Future<PushReply>(parsed);
  }
  counts.rows_pushed.fetch_add(push->ids.size(), std::memory_order_relaxed);
  CutShares(*push, op->table->parts().size(), dim);
  op->parts = NonEmpty(push->slices);
  op->size = push->gradients.size() <= kShortFloats ? TaskSize::kShort : TaskSize::kLong;
  const bool several = op->table->parts().size() > 1;
  // Not `op`: it would own itself.
  op->check = [this, push, several, raw = op.get()](TablePart& part) -> absl::Status {
    RowsShare& share = push->shares[IndexOf(*raw->table, part)];
    GW_RETURN_IF_ERROR(CheckFinite(*this, *raw, share.gradients, share.clipped, "gradients"));
    // A part alone is all or nothing anyway.
    return several ? part.rows->Touch(share.ids) : absl::OkStatus();
  };
  op->apply = [push, raw = op.get()](TablePart& part) {
    const RowsShare& share = push->shares[IndexOf(*raw->table, part)];
    return part.rows->Update(raw->table->lr(), share.ids, share.gradients);
  };
  op->done = [promise](absl::Status status, const PushReply& reply) {
    if (status.ok()) {
      promise->Set(reply);
    } else {
      promise->Set(std::move(status));
    }
  };
  Future<PushReply> future = promise->future();
  RunPush(*this, op);
  return future;
}

Future<RowsReply> State::PushPullRows(rpc::CallInfo& call, const PushPullRowsRequest& request) {
  if (request.pull.table != request.push.table) {
    return Future<RowsReply>(
        absl::InvalidArgumentError("push_pull_rows is about one table; this request names two"));
  }
  // The pull's owners have the push behind them when it is answered: nothing to wait for.
  const auto pull = std::make_shared<PullRowsRequest>(request.pull);
  pull->after = 0;
  const Future<PushReply> pushed = PushRows(call, request.push);
  return pushed.ThenInline(
      [this, &call, pull](const absl::StatusOr<PushReply>& reply) -> Future<RowsReply> {
        if (!reply.ok()) return Future<RowsReply>(reply.status());
        return PullRows(call, *pull);
      });
}

Future<PushDenseReply> State::PushDense(rpc::CallInfo& call, PushDenseRequest request) {
  struct Share {
    std::vector<std::span<const float>> gradients;  // as the part's blocks
    std::vector<std::vector<float>> clipped;
  };
  struct DensePush {
    std::vector<Elements<float>> gradients;
    std::vector<Share> shares;  // one a part
    DenseSnapshot snapshot;
    bool pull = false;
  };
  const auto push = std::make_shared<DensePush>();
  const auto op = std::make_shared<PushOp>();
  const auto promise = std::make_shared<Promise<PushDenseReply>>();
  absl::StatusOr<std::shared_ptr<Table>> found = FindDense(request.table, request.map_epoch);
  if (!found.ok()) return Future<PushDenseReply>(found.status());
  op->table = *std::move(found);
  op->push = PushOf(call, request.sequence);
  op->finished_below = request.finished_below;
  DenseStore& store = *op->table->blocks();
  const absl::Status parsed = [&]() -> absl::Status {
    GW_RETURN_IF_ERROR(CheckSequence(request.sequence, *op->table));
    if (request.gradients.size() != store.numbers().size()) {
      return absl::InvalidArgumentError(absl::StrCat("gradients for ", request.gradients.size(),
                                                     " blocks; table ", op->table->name(), " has ",
                                                     store.numbers().size(), " on this server"));
    }
    for (size_t i = 0; i < request.gradients.size(); ++i) {
      const uint32_t number = store.numbers()[i];
      GW_ASSIGN_OR_RETURN(
          push->gradients.emplace_back(),
          ParseBlock(request.gradients[i], store.Find(number)->count(),
                     absl::StrCat("gradients of block ", number, " of ", op->table->name())));
    }
    if (request.pull) {
      push->snapshot.table = op->table;
      GW_ASSIGN_OR_RETURN(push->snapshot.reply,
                          AllocateBlocks(*this, *op->table, push->snapshot.memory));
    }
    return absl::OkStatus();
  }();
  if (!parsed.ok()) {
    if (request.sequence != 0) Refuse(*this, op->table, op->push, op->finished_below);
    return Future<PushDenseReply>(parsed);
  }
  push->pull = request.pull;
  op->parts = DenseParts(*op->table);
  const size_t part_count = op->table->parts().size();
  op->size =
      store.element_count() / part_count <= kShortFloats ? TaskSize::kShort : TaskSize::kLong;
  push->shares.resize(part_count);
  for (size_t i = 0; i < push->gradients.size(); ++i) {
    Share& share = push->shares[i % part_count];
    share.gradients.push_back(push->gradients[i].values());
    share.clipped.emplace_back();
  }
  op->check = [this, push, raw = op.get()](TablePart& part) -> absl::Status {
    Share& share = push->shares[IndexOf(*raw->table, part)];
    for (size_t i = 0; i < share.gradients.size(); ++i) {
      GW_RETURN_IF_ERROR(CheckFinite(
          *this, *raw, share.gradients[i], share.clipped[i],
          absl::StrCat("gradients of block ", part.blocks.empty() ? 0 : part.blocks[i])));
    }
    return absl::OkStatus();
  };
  op->apply = [push, raw = op.get()](TablePart& part) -> absl::Status {
    const Share& share = push->shares[IndexOf(*raw->table, part)];
    for (size_t i = 0; i < share.gradients.size(); ++i) {
      DenseBlock* block = raw->table->blocks()->Find(part.blocks[i]);
      GW_RETURN_IF_ERROR(block->Apply(raw->table->lr(), share.gradients[i]));
    }
    return absl::OkStatus();
  };
  op->after = [push](TablePart& part) {
    if (push->pull) push->snapshot.Read(part);
  };
  op->done = [push, promise](absl::Status status, const PushReply& reply) {
    if (!status.ok()) {
      promise->Set(std::move(status));
      return;
    }
    PushDenseReply answer{.version = reply.version, .skipped = reply.skipped, .after = {}};
    if (push->pull) answer.after = push->snapshot.Take();
    promise->Set(std::move(answer));
  };
  Future<PushDenseReply> future = promise->future();
  RunPush(*this, op);
  return future;
}

}  // namespace gradwire::server
