#include "worker/client/dense.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/clock.h"
#include "server/store/dense_layout.h"
#include "server/verbs/verbs.h"
#include "worker/client/push_ledger.h"
#include "worker/client/table_client.h"

namespace gradwire::worker {
namespace {

absl::Status CheckTensor(const at::Tensor& tensor, const std::string& what) {
  if (!tensor.defined()) return absl::InvalidArgumentError(absl::StrCat(what, " is undefined"));
  if (!tensor.is_cpu() || tensor.scalar_type() != at::kFloat || !tensor.is_contiguous()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", tensor.toString(), tensor.is_contiguous() ? "" : ", strided",
                     "; parameters must be contiguous float32 on the CPU"));
  }
  return absl::OkStatus();
}

// Elements [offset, offset + count) of a contiguous tensor, which the view keeps alive.
rpc::TensorView BlockOf(const at::Tensor& tensor, uint64_t offset, uint32_t count) {
  rpc::TensorView view;
  const int64_t size = count;
  view.layout = *rpc::TensorLayout::Make(rpc::DType::kFloat32, std::span(&size, 1));
  const auto* data = static_cast<const float*>(tensor.const_data_ptr()) + offset;
  view.bytes = Buffer({reinterpret_cast<const std::byte*>(data), count * sizeof(float)},
                      std::make_shared<at::Tensor>(tensor));
  return view;
}

}  // namespace

struct Dense::Impl {
  std::shared_ptr<Servers> servers;
  std::shared_ptr<ClientTimes> times;
  std::string name;
  std::vector<at::Tensor> parameters;
  DenseOptions options;
  server::DenseLayout layout;
  uint64_t table = 0;
  PushLedger ledger;
  uint64_t version = 0;
  uint64_t pulled_version = 0;
  std::vector<PendingCall<server::DenseReply>> ahead;          // overlap: the next pull
  std::vector<PendingCall<server::PushDenseReply>> under_way;  // a push
  uint64_t pushing = 0;                                        // its number
  bool pulling = false;                                        // it brings the weights along

  // The number of a parameter and what it is, for messages.
  std::string What(size_t parameter) const {
    std::string shape;
    for (const int64_t size : parameters[parameter].sizes()) {
      absl::StrAppend(&shape, shape.empty() ? "" : ", ", size);
    }
    return absl::StrCat("parameter ", parameter, " [", shape, "] of ", name);
  }

  std::vector<PendingCall<server::DenseReply>> StartPull() {
    std::vector<PendingCall<server::DenseReply>> calls;
    for (size_t i = 0; i < servers->size(); ++i) {
      calls.push_back(
          servers->Start(i, server::kPullDense({.table = table, .after = ledger.after()})));
    }
    return calls;
  }

  // Blocks of one server into the parameters.
  absl::Status TakeBlocks(size_t server, const server::DenseReply& reply) {
    const std::span<const uint32_t> numbers = layout.BlocksOf(server);
    if (reply.blocks.size() != numbers.size() || reply.versions.size() != numbers.size()) {
      return absl::InternalError(absl::StrCat(servers->name(server), " sent ", reply.blocks.size(),
                                              " blocks of ", name, ", it has ", numbers.size()));
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      const server::DenseBlockSpec& spec = layout.blocks()[numbers[i]];
      const rpc::TensorView& block = reply.blocks[i];
      if (block.layout.dtype != rpc::DType::kFloat32 ||
          block.bytes.size() != spec.count * sizeof(float)) {
        return absl::InternalError(absl::StrCat(servers->name(server), " sent block ", numbers[i],
                                                " of ", name, " as ", block.layout.ToString()));
      }
      auto* data = static_cast<float*>(parameters[spec.tensor].mutable_data_ptr()) + spec.offset;
      std::memcpy(data, block.bytes.data(), block.bytes.size());
      pulled_version = std::max(pulled_version, reply.versions[i]);
    }
    return absl::OkStatus();
  }

  // Autograd must see that the values are others.
  void CountUp() {
    for (at::Tensor& parameter : parameters) parameter.unsafeGetTensorImpl()->bump_version();
  }

  absl::Status TakePull(std::vector<PendingCall<server::DenseReply>>& calls) {
    absl::Status status;
    CountUp();
    for (size_t i = 0; i < calls.size(); ++i) {
      absl::StatusOr<server::DenseReply> reply = calls[i].Wait();
      status.Update(reply.status());
      if (reply.ok()) status.Update(TakeBlocks(i, *reply));
    }
    return status;
  }

  absl::Status StartPush(bool pull) {
    if (pushing != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("a push of ", name, " is under way; wait for it first"));
    }
    std::vector<at::Tensor> gradients(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor& gradient = parameters[i].grad();
      if (!gradient.defined()) {
        return absl::InvalidArgumentError(absl::StrCat(
            What(i),
            " has no gradient; call backward() first, and give only parameters that the "
            "loss depends on"));
      }
      if (gradient.sizes() != parameters[i].sizes()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the gradient of ", What(i), " has another shape"));
      }
      gradients[i] = gradient.contiguous();
      GW_RETURN_IF_ERROR(CheckTensor(gradients[i], absl::StrCat("the gradient of ", What(i))));
    }
    for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    pushing = ledger.Begin();
    pulling = pull;
    const uint64_t finished_below = ledger.finished_below();
    for (size_t server = 0; server < servers->size(); ++server) {
      server::PushDenseRequest request{
          .table = table, .sequence = pushing, .finished_below = finished_below, .pull = pull};
      for (const uint32_t number : layout.BlocksOf(server)) {
        const server::DenseBlockSpec& spec = layout.blocks()[number];
        request.gradients.push_back(BlockOf(gradients[spec.tensor], spec.offset, spec.count));
      }
      under_way.push_back(servers->Start(server, server::kPushDense(std::move(request))));
    }
    return absl::OkStatus();
  }

  absl::Status WaitPush() {
    if (pushing == 0) return absl::OkStatus();
    absl::Status status;
    uint64_t applied = 0;
    const uint64_t pulled_before = pulled_version;
    if (pulling) CountUp();
    for (size_t i = 0; i < under_way.size(); ++i) {
      absl::StatusOr<server::PushDenseReply> reply = under_way[i].Wait();
      status.Update(reply.status());
      if (!reply.ok()) continue;
      applied = std::max(applied, reply->version);
      if (pulling) status.Update(TakeBlocks(i, reply->after));
    }
    under_way.clear();
    ledger.End(std::exchange(pushing, 0));
    if (!status.ok()) return status;
    version = std::max(version, applied);
    ++times->pushes;
    if (applied > pulled_before + 1) times->staleness += applied - pulled_before - 1;
    return absl::OkStatus();
  }
};

Dense::Dense(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Dense::Dense(Dense&&) noexcept = default;
Dense& Dense::operator=(Dense&&) noexcept = default;
Dense::~Dense() = default;

absl::StatusOr<Dense> Dense::Create(std::shared_ptr<Servers> servers,
                                    std::shared_ptr<ClientTimes> times, const std::string& name,
                                    std::vector<at::Tensor> parameters,
                                    const DenseOptions& options) {
  GW_ASSIGN_OR_RETURN(const optim::Rule rule, optim::Rule::Create(options.rule));
  std::vector<uint64_t> counts;
  for (size_t i = 0; i < parameters.size(); ++i) {
    GW_RETURN_IF_ERROR(CheckTensor(parameters[i], absl::StrCat("parameter ", i, " of ", name)));
    counts.push_back(static_cast<uint64_t>(parameters[i].numel()));
  }
  GW_ASSIGN_OR_RETURN(server::DenseLayout layout,
                      server::DenseLayout::Create(counts, servers->size()), _ << "table " << name);
  server::TableSpec spec;
  spec.name = name;
  spec.rule = server::ToSpec(rule);
  spec.element_counts = std::move(counts);
  GW_ASSIGN_OR_RETURN(
      const server::TableReply reply, CreateTable(*servers, std::move(spec), [&](size_t server) {
        std::vector<rpc::TensorView> values;
        for (const uint32_t number : layout.BlocksOf(server)) {
          const server::DenseBlockSpec& block = layout.blocks()[number];
          values.push_back(BlockOf(parameters[block.tensor], block.offset, block.count));
        }
        return values;
      }));
  auto impl = std::shared_ptr<Impl>(new Impl{.servers = std::move(servers),
                                             .times = std::move(times),
                                             .name = name,
                                             .parameters = std::move(parameters),
                                             .options = options,
                                             .layout = std::move(layout),
                                             .table = reply.table,
                                             .ledger = {},
                                             .ahead = {},
                                             .under_way = {}});
  return Dense(std::move(impl));
}

absl::Status Dense::Pull() {
  const absl::Time start = Clock::Real().Now();
  std::vector<PendingCall<server::DenseReply>> calls = std::move(impl_->ahead);
  impl_->ahead.clear();
  if (calls.empty()) calls = impl_->StartPull();
  if (impl_->options.overlap) impl_->ahead = impl_->StartPull();
  const absl::Status status = impl_->TakePull(calls);
  impl_->times->pull += Clock::Real().Now() - start;
  return status;
}

absl::Status Dense::Refresh(Impl& impl) {
  GW_RETURN_IF_ERROR(impl.WaitPush());
  impl.ahead.clear();
  std::vector<PendingCall<server::DenseReply>> calls = impl.StartPull();
  return impl.TakePull(calls);
}

absl::Status Dense::Push() {
  GW_RETURN_IF_ERROR(StartPush());
  return WaitPush();
}

absl::Status Dense::PushPull() {
  const absl::Time start = Clock::Real().Now();
  absl::Status status;
  if (impl_->options.overlap) status = impl_->WaitPush();
  if (status.ok()) status = impl_->StartPush(/*pull=*/true);
  if (status.ok() && !impl_->options.overlap) status = impl_->WaitPush();
  impl_->times->push += Clock::Real().Now() - start;
  return status;
}

absl::Status Dense::StartPush() {
  const absl::Time start = Clock::Real().Now();
  const absl::Status status = impl_->StartPush(/*pull=*/false);
  impl_->times->push += Clock::Real().Now() - start;
  return status;
}

absl::Status Dense::WaitPush() {
  const absl::Time start = Clock::Real().Now();
  const absl::Status status = impl_->WaitPush();
  impl_->times->push += Clock::Real().Now() - start;
  return status;
}

absl::Status Dense::SetLearningRate(double lr) {
  for (size_t i = 0; i < impl_->servers->size(); ++i) {
    GW_RETURN_IF_ERROR(impl_->servers->Start(i, server::kSetLearningRate(impl_->table, lr)).Wait());
  }
  return absl::OkStatus();
}

uint64_t Dense::version() const { return impl_->version; }

}  // namespace gradwire::worker
