// pull_rows, pull_dense: what the weights are now. Repeatable.
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "server/pull.h"
#include "server/requests.h"
#include "server/state.h"

namespace gradwire::server {
namespace {

// Rows of a batch up to here are copied on the thread that brings the request: 64 KiB, some 10 us.
constexpr size_t kShortFloats = size_t{16} << 10;

struct PullOp {
  std::shared_ptr<Table> table;
  Elements<int64_t> ids;
  bool create = true;
  PooledBuffer rows;
  std::atomic<uint64_t> version{0};  // the largest of the parts'; published by the join
  std::vector<PartSlice> slices;     // of several parts
  Promise<RowsReply> promise;

  std::span<float> out() { return {reinterpret_cast<float*>(rows.data()), rows.size() / 4}; }
};

void RaiseTo(std::atomic<uint64_t>& value, uint64_t least) {
  uint64_t seen = value.load(std::memory_order_relaxed);
  while (seen < least && !value.compare_exchange_weak(seen, least, std::memory_order_relaxed)) {
  }
}

absl::Status ReadPart(PullOp& op, TablePart& part) {
  RaiseTo(op.version, part.version);
  if (op.slices.empty()) return part.rows->Lookup(op.ids.values(), op.create, op.out());
  const PartSlice& slice = op.slices[static_cast<size_t>(&part - op.table->parts().data())];
  const size_t dim = op.table->dim();
  std::vector<float> rows(slice.ids.size() * dim);
  GW_RETURN_IF_ERROR(part.rows->Lookup(slice.ids, op.create, rows));
  for (size_t i = 0; i < slice.ids.size(); ++i) {
    std::memcpy(op.out().data() + slice.places[i] * dim, rows.data() + i * dim,
                dim * sizeof(float));
  }
  return absl::OkStatus();
}

void Answer(PullOp& op, const absl::Status& status) {
  if (!status.ok()) {
    op.promise.Set(WithContext(status, absl::StrCat("pulling from table ", op.table->name())));
    return;
  }
  RowsReply reply;
  reply.version = op.version.load(std::memory_order_relaxed);
  const int64_t sizes[] = {static_cast<int64_t>(op.ids.size()),
                           static_cast<int64_t>(op.table->dim())};
  reply.rows.layout = *rpc::TensorLayout::Make(rpc::DType::kFloat32, sizes);
  const size_t size_bytes = op.rows.size();
  const std::shared_ptr<std::byte> shared = std::move(op.rows).Share();
  reply.rows.bytes = Buffer(Bytes(shared.get(), size_bytes), shared);
  op.promise.Set(std::move(reply));
}

}  // namespace

std::vector<PartSlice> SliceByPart(std::span<const int64_t> ids, size_t part_count) {
  std::vector<PartSlice> slices(part_count);
  for (size_t i = 0; i < ids.size(); ++i) {
    PartSlice& slice = slices[OwnerOf(ShardOf(ids[i]), part_count)];
    slice.ids.push_back(ids[i]);
    slice.places.push_back(static_cast<uint32_t>(i));
  }
  return slices;
}

std::vector<size_t> NonEmpty(const std::vector<PartSlice>& slices) {
  if (slices.empty()) return {0};
  std::vector<size_t> parts;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!slices[i].ids.empty()) parts.push_back(i);
  }
  return parts;
}

Future<RowsReply> State::PullRows(rpc::CallInfo& call, const PullRowsRequest& request) {
  const auto op = std::make_shared<PullOp>();
  const absl::Status parsed = [&]() -> absl::Status {
    GW_ASSIGN_OR_RETURN(op->table, FindRows(request.table, request.map_epoch));
    GW_ASSIGN_OR_RETURN(op->ids,
                        ParseIds(request.ids, absl::StrCat("ids of table ", op->table->name())));
    GW_ASSIGN_OR_RETURN(op->rows, pool.Allocate(op->ids.size() * op->table->dim() * sizeof(float)));
    return absl::OkStatus();
  }();
  if (!parsed.ok()) return Future<RowsReply>(parsed);
  counts.pulls.fetch_add(1, std::memory_order_relaxed);
  counts.rows_pulled.fetch_add(op->ids.size(), std::memory_order_relaxed);
  op->create = request.create;
  const size_t part_count = op->table->parts().size();
  if (part_count > 1) op->slices = SliceByPart(op->ids.values(), part_count);
  const TaskSize size = op->out().size() <= kShortFloats ? TaskSize::kShort : TaskSize::kLong;
  Future<RowsReply> future = op->promise.future();
  const std::vector<size_t> parts = NonEmpty(op->slices);
  AfterPush(*this, call, op->table, parts, request.after, [this, op, parts, size](absl::Status ok) {
    if (!ok.ok()) return Answer(*op, ok);
    OnParts(
        op->table, parts, size, [op](TablePart& part) { return ReadPart(*op, part); },
        [op](const absl::Status& status) { Answer(*op, status); });
  });
  return future;
}

void AfterPush(State& state, rpc::CallInfo& call, std::shared_ptr<Table> table,
               const std::vector<size_t>& parts, uint64_t after,
               absl::AnyInvocable<void(absl::Status)> go) {
  if (after == 0 || parts.empty()) return go(absl::OkStatus());
  const PushId push = state.PushOf(call, after);
  struct Joint {
    Mutex mu;
    size_t left GW_GUARDED_BY(mu) = 0;
    absl::Status first_error GW_GUARDED_BY(mu);
    absl::AnyInvocable<void(absl::Status)> go;
    void Done(const absl::Status& status) {
      absl::Status outcome;
      {
        MutexLock lock(mu);
        first_error.Update(status);
        if (--left > 0) return;
        outcome = first_error;
      }
      go(std::move(outcome));
    }
  };
  auto joint = std::make_shared<Joint>();
  joint->go = std::move(go);
  {
    MutexLock lock(joint->mu);
    joint->left = parts.size();
  }
  // The call lives until its future is ready, which `go` is before.
  for (const size_t index : parts) {
    TablePart& part = table->parts()[index];
    const absl::Status posted =
        part.owner->Run(TaskSize::kShort, [&state, &call, table, &part, push, joint] {
          state.WhenSettled(table, part, push, call,
                            [joint](absl::Status status) { joint->Done(status); });
        });
    if (!posted.ok()) joint->Done(posted);
  }
}

absl::StatusOr<DenseReply> AllocateBlocks(State& state, Table& table,
                                          std::vector<PooledBuffer>& out) {
  DenseReply reply;
  DenseStore& store = *table.blocks();
  for (const uint32_t number : store.numbers()) {
    const size_t count = store.Find(number)->count();
    GW_ASSIGN_OR_RETURN(out.emplace_back(), state.pool.Allocate(count * sizeof(float)));
    const int64_t size = static_cast<int64_t>(count);
    reply.versions.push_back(0);
    reply.blocks.emplace_back().layout =
        *rpc::TensorLayout::Make(rpc::DType::kFloat32, std::span(&size, 1));
  }
  return reply;
}

void DenseSnapshot::Read(TablePart& part) {
  DenseStore& store = *table->blocks();
  const std::span<const uint32_t> numbers = store.numbers();
  // A part has every parts().size()-th block, from its own place on.
  const size_t first = static_cast<size_t>(&part - table->parts().data());
  for (size_t i = first; i < numbers.size(); i += table->parts().size()) {
    const DenseBlock& block = *store.Find(numbers[i]);
    std::span<float> out(reinterpret_cast<float*>(memory[i].data()), block.count());
    GW_CHECK(block.CopyTo(out).ok());
    reply.versions[i] = block.version();
  }
}

DenseReply DenseSnapshot::Take() {
  for (size_t i = 0; i < memory.size(); ++i) {
    const size_t size_bytes = memory[i].size();
    const std::shared_ptr<std::byte> shared = std::move(memory[i]).Share();
    reply.blocks[i].bytes = Buffer(Bytes(shared.get(), size_bytes), shared);
  }
  return std::move(reply);
}

std::vector<size_t> DenseParts(Table& table) {
  std::vector<size_t> parts;
  for (size_t i = 0; i < table.parts().size(); ++i) {
    if (!table.parts()[i].blocks.empty()) parts.push_back(i);
  }
  return parts;
}

Future<DenseReply> State::PullDense(rpc::CallInfo& call, const PullDenseRequest& request) {
  const auto op = std::make_shared<DenseSnapshot>();
  const auto promise = std::make_shared<Promise<DenseReply>>();
  const absl::Status parsed = [&]() -> absl::Status {
    GW_ASSIGN_OR_RETURN(op->table, FindDense(request.table, request.map_epoch));
    GW_ASSIGN_OR_RETURN(op->reply, AllocateBlocks(*this, *op->table, op->memory));
    return absl::OkStatus();
  }();
  if (!parsed.ok()) return Future<DenseReply>(parsed);
  counts.pulls.fetch_add(1, std::memory_order_relaxed);
  Future<DenseReply> future = promise->future();
  const std::vector<size_t> parts = DenseParts(*op->table);
  const TaskSize size =
      op->table->blocks()->element_count() / op->table->parts().size() <= kShortFloats
          ? TaskSize::kShort
          : TaskSize::kLong;
  AfterPush(*this, call, op->table, parts, request.after,
            [this, op, promise, parts, size](absl::Status ok) {
              if (!ok.ok()) {
                promise->Set(std::move(ok));
                return;
              }
              OnParts(
                  op->table, parts, size,
                  [op](TablePart& part) {
                    op->Read(part);
                    return absl::OkStatus();
                  },
                  [op, promise](absl::Status status) {
                    if (status.ok()) {
                      promise->Set(op->Take());
                    } else {
                      promise->Set(std::move(status));
                    }
                  });
            });
  return future;
}

}  // namespace gradwire::server
