#include "worker/client/embedding.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "c10/core/GradMode.h"
#include "rpc/base/clock.h"
#include "server/verbs/verbs.h"
#include "worker/client/distinct.h"
#include "worker/client/push_ledger.h"
#include "worker/client/table_client.h"

namespace gradwire::worker {
namespace {

// One server's share of a batch of distinct ids.
struct Share {
  std::vector<int64_t> ids;
  std::vector<uint32_t> places;  // in the batch
};

std::vector<Share> Spread(const Servers& servers, const std::vector<int64_t>& ids) {
  std::vector<Share> shares(servers.size());
  if (servers.size() == 1) {
    shares[0].ids = ids;
    return shares;  // places are the identity, and not looked at
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    Share& share = shares[servers.map().ServerOfId(ids[i])];
    share.ids.push_back(ids[i]);
    share.places.push_back(static_cast<uint32_t>(i));
  }
  return shares;
}

// The view owns `values`.
template <class T>
rpc::TensorView ToView(rpc::DType dtype, std::span<const int64_t> sizes, std::vector<T> values) {
  rpc::TensorView view;
  view.layout = *rpc::TensorLayout::Make(dtype, sizes);
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  view.bytes =
      Buffer({reinterpret_cast<const std::byte*>(owner->data()), owner->size() * sizeof(T)}, owner);
  return view;
}

rpc::TensorView IdsView(std::vector<int64_t> ids) {
  const int64_t size = static_cast<int64_t>(ids.size());
  return ToView(rpc::DType::kInt64, std::span(&size, 1), std::move(ids));
}

rpc::TensorView RowsView(int64_t dim, std::vector<float> rows) {
  const int64_t sizes[] = {static_cast<int64_t>(rows.size()) / dim, dim};
  return ToView(rpc::DType::kFloat32, sizes, std::move(rows));
}

// Rows whose gradient the next push takes.
struct Tracked {
  std::vector<int64_t> ids;  // distinct
  at::Tensor rows;           // a leaf
};

}  // namespace

struct Embedding::Impl {
  std::shared_ptr<Servers> servers;
  std::shared_ptr<ClientTimes> times;
  std::string name;
  int64_t dim = 0;
  uint64_t table = 0;
  PushLedger ledger;
  std::vector<Tracked> tracked;
  uint64_t pulled_version = 0;
  std::vector<PendingCall<server::PushReply>> under_way;
  uint64_t pushing = 0;

  // Sums of the gradients by id, over all lookups since the last push.
  absl::StatusOr<Tracked> TakeGradients() {
    std::vector<Tracked> with_gradient;
    for (Tracked& one : tracked) {
      if (one.rows.grad().defined()) with_gradient.push_back(std::move(one));
    }
    tracked.clear();
    if (with_gradient.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("no lookup of table ", name,
                       " since the last push has a gradient; call Lookup, then "
                       "backward() on a loss that depends on its rows, then Push"));
    }
    if (with_gradient.size() == 1) {
      return Tracked{std::move(with_gradient[0].ids), with_gradient[0].rows.grad().contiguous()};
    }
    std::vector<int64_t> all;
    for (const Tracked& one : with_gradient) all.insert(all.end(), one.ids.begin(), one.ids.end());
    Distinct distinct = FindDistinct(all);
    GW_ASSIGN_OR_RETURN(at::Tensor sums,
                        rpc::Zeros({static_cast<int64_t>(distinct.ids.size()), dim}, at::kFloat));
    auto* out = static_cast<float*>(sums.mutable_data_ptr());
    size_t next = 0;
    for (const Tracked& one : with_gradient) {
      const at::Tensor gradient = one.rows.grad().contiguous();
      const auto* in = static_cast<const float*>(gradient.const_data_ptr());
      for (size_t i = 0; i < one.ids.size(); ++i) {
        float* row = out + distinct.inverse[next++] * dim;
        for (int64_t column = 0; column < dim; ++column) row[column] += *in++;
      }
    }
    return Tracked{std::move(distinct.ids), std::move(sums)};
  }

  absl::Status StartPush() {
    GW_RETURN_IF_ERROR(WaitPush());
    GW_ASSIGN_OR_RETURN(const Tracked gradient, TakeGradients());
    const auto* rows = static_cast<const float*>(gradient.rows.const_data_ptr());
    pushing = ledger.Begin();
    const uint64_t finished_below = ledger.finished_below();
    std::vector<Share> shares = Spread(*servers, gradient.ids);
    for (size_t server = 0; server < shares.size(); ++server) {
      Share& share = shares[server];
      server::PushRowsRequest request{
          .table = table, .sequence = pushing, .finished_below = finished_below};
      std::vector<float> values;
      if (shares.size() == 1) {
        values.assign(rows, rows + gradient.rows.numel());
      } else {
        values.reserve(share.ids.size() * static_cast<size_t>(dim));
        for (const uint32_t place : share.places) {
          values.insert(values.end(), rows + place * dim, rows + (place + 1) * dim);
        }
      }
      request.ids = IdsView(std::move(share.ids));
      request.gradients = RowsView(dim, std::move(values));
      under_way.push_back(servers->Start(server, server::kPushRows(std::move(request))));
    }
    return absl::OkStatus();
  }

  absl::Status WaitPush() {
    if (pushing == 0) return absl::OkStatus();
    absl::Status status;
    uint64_t applied = 0;
    for (auto& call : under_way) {
      const absl::StatusOr<server::PushReply> reply = call.Wait();
      status.Update(reply.status());
      if (reply.ok()) applied = std::max(applied, reply->version);
    }
    under_way.clear();
    ledger.End(std::exchange(pushing, 0));
    if (!status.ok()) return status;
    ++times->pushes;
    if (applied > pulled_version + 1) times->staleness += applied - pulled_version - 1;
    return absl::OkStatus();
  }
};

struct PendingLookup::Impl {
  Embedding::Impl* table = nullptr;
  std::vector<int64_t> shape;  // of the ids
  Distinct distinct;
  std::vector<Share> shares;
  std::vector<PendingCall<server::RowsReply>> calls;
  bool tracked = false;

  absl::Status TakeRows(size_t server, const server::RowsReply& reply, float* out) {
    const size_t count = shares[server].ids.size();
    const size_t row_bytes = static_cast<size_t>(table->dim) * sizeof(float);
    if (reply.rows.layout.dtype != rpc::DType::kFloat32 ||
        reply.rows.bytes.size() != count * row_bytes) {
      return absl::InternalError(absl::StrCat(table->servers->name(server), " sent rows of ",
                                              table->name, " as ", reply.rows.layout.ToString()));
    }
    table->pulled_version = std::max(table->pulled_version, reply.version);
    if (count == 0) return absl::OkStatus();
    if (shares.size() == 1) {
      std::memcpy(out, reply.rows.bytes.data(), reply.rows.bytes.size());
      return absl::OkStatus();
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(out + shares[server].places[i] * static_cast<size_t>(table->dim),
                  reply.rows.bytes.data() + i * row_bytes, row_bytes);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> Wait() {
    const absl::Time start = Clock::Real().Now();
    GW_ASSIGN_OR_RETURN(
        at::Tensor rows,
        rpc::Empty({static_cast<int64_t>(distinct.ids.size()), table->dim}, at::kFloat));
    absl::Status status;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!calls[i].valid()) continue;
      const absl::StatusOr<server::RowsReply> reply = calls[i].Wait();
      status.Update(reply.status());
      if (reply.ok()) {
        status.Update(TakeRows(i, *reply, static_cast<float*>(rows.mutable_data_ptr())));
      }
    }
    table->times->pull += Clock::Real().Now() - start;
    if (!status.ok()) return status;
    return rpc::TorchToStatus("Lookup", [&]() -> absl::StatusOr<at::Tensor> {
      if (tracked) rows.set_requires_grad(true);
      at::Tensor result = rows;
      if (distinct.ids.size() != distinct.inverse.size()) {
        GW_ASSIGN_OR_RETURN(
            const at::Tensor inverse,
            rpc::FromBytes({reinterpret_cast<const std::byte*>(distinct.inverse.data()),
                            distinct.inverse.size() * sizeof(int64_t)},
                           {static_cast<int64_t>(distinct.inverse.size())}, at::kLong));
        result = rows.index_select(0, inverse);
      }
      if (tracked) table->tracked.push_back({std::move(distinct.ids), rows});
      if (shape.size() != 1) {
        shape.push_back(table->dim);
        result = result.reshape(shape);
      }
      return result;
    });
  }
};

PendingLookup::PendingLookup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PendingLookup::PendingLookup(PendingLookup&&) noexcept = default;
PendingLookup& PendingLookup::operator=(PendingLookup&&) noexcept = default;
PendingLookup::~PendingLookup() = default;
absl::StatusOr<at::Tensor> PendingLookup::Wait() { return impl_->Wait(); }

Embedding::Embedding(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Embedding::Embedding(Embedding&&) noexcept = default;
Embedding& Embedding::operator=(Embedding&&) noexcept = default;
Embedding::~Embedding() = default;

absl::StatusOr<Embedding> Embedding::Create(std::shared_ptr<Servers> servers,
                                            std::shared_ptr<ClientTimes> times,
                                            const std::string& name,
                                            const EmbeddingOptions& options, uint64_t job_seed) {
  if (options.dim <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("table ", name, " has rows of ", options.dim,
                                                   " floats; set EmbeddingOptions::dim"));
  }
  GW_ASSIGN_OR_RETURN(const optim::Rule rule, optim::Rule::Create(options.rule));
  server::TableSpec spec;
  spec.name = name;
  spec.rule = server::ToSpec(rule);
  spec.dim = static_cast<uint64_t>(options.dim);
  spec.init = server::ToSpec(options.init);
  spec.seed = options.seed.value_or(job_seed);
  GW_ASSIGN_OR_RETURN(const server::TableReply reply,
                      CreateTable(*servers, std::move(spec),
                                  [](size_t) { return std::vector<rpc::TensorView>(); }));
  auto impl = std::unique_ptr<Impl>(new Impl{.servers = std::move(servers),
                                             .times = std::move(times),
                                             .name = name,
                                             .dim = options.dim,
                                             .table = reply.table,
                                             .ledger = {},
                                             .tracked = {},
                                             .under_way = {}});
  return Embedding(std::move(impl));
}

absl::StatusOr<PendingLookup> Embedding::StartLookup(const at::Tensor& ids,
                                                     const LookupOptions& options) {
  if (!ids.defined() || !ids.is_cpu() || ids.scalar_type() != at::kLong) {
    return absl::InvalidArgumentError(absl::StrCat("ids of table ", impl_->name, " are ",
                                                   ids.defined() ? ids.toString() : "undefined",
                                                   "; they must be int64 on the CPU"));
  }
  const at::Tensor flat = ids.contiguous();
  const std::span<const int64_t> values(static_cast<const int64_t*>(flat.const_data_ptr()),
                                        static_cast<size_t>(flat.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("id ", i, " for table ", impl_->name, " is ",
                                                     values[i], "; ids are not negative"));
    }
  }
  auto pending = std::make_unique<PendingLookup::Impl>();
  pending->table = impl_.get();
  pending->shape = ids.sizes().vec();
  pending->distinct = FindDistinct(values);
  pending->shares = Spread(*impl_->servers, pending->distinct.ids);
  pending->tracked = options.create && c10::GradMode::is_enabled();
  pending->calls.resize(pending->shares.size());
  for (size_t i = 0; i < pending->shares.size(); ++i) {
    if (pending->shares[i].ids.empty()) continue;
    pending->calls[i] =
        impl_->servers->Start(i, server::kPullRows({.table = impl_->table,
                                                    .after = impl_->ledger.after(),
                                                    .create = options.create,
                                                    .ids = IdsView(pending->shares[i].ids)}));
  }
  return PendingLookup(std::move(pending));
}

absl::StatusOr<at::Tensor> Embedding::Lookup(const at::Tensor& ids, const LookupOptions& options) {
  GW_ASSIGN_OR_RETURN(PendingLookup pending, StartLookup(ids, options));
  return pending.Wait();
}

absl::Status Embedding::Push() {
  GW_RETURN_IF_ERROR(StartPush());
  return WaitPush();
}

absl::Status Embedding::StartPush() {
  const absl::Time start = Clock::Real().Now();
  const absl::Status status = impl_->StartPush();
  impl_->times->push += Clock::Real().Now() - start;
  return status;
}

absl::Status Embedding::WaitPush() {
  const absl::Time start = Clock::Real().Now();
  const absl::Status status = impl_->WaitPush();
  impl_->times->push += Clock::Real().Now() - start;
  return status;
}

absl::Status Embedding::SetLearningRate(double lr) {
  for (size_t i = 0; i < impl_->servers->size(); ++i) {
    GW_RETURN_IF_ERROR(impl_->servers->Start(i, server::kSetLearningRate(impl_->table, lr)).Wait());
  }
  return absl::OkStatus();
}

}  // namespace gradwire::worker
