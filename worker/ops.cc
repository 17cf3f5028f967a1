#include "worker/ops.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace gradwire::worker {

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::addmm(bias, x, weight.t());
}

at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels);
}

at::Tensor LogLoss(const at::Tensor& logits, const at::Tensor& labels) {
  return at::binary_cross_entropy_with_logits(logits, labels);
}

double Accuracy(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor right = logits.argmax(1).eq(labels);
  return right.sum().item<double>() / static_cast<double>(labels.numel());
}

at::Tensor UniformTensor(at::IntArrayRef sizes, double bound, Rng& rng) {
  absl::StatusOr<at::Tensor> tensor = rpc::Empty(sizes, at::kFloat);
  TORCH_CHECK(tensor.ok(), tensor.status().ToString());
  auto* out = static_cast<float*>(tensor->mutable_data_ptr());
  for (int64_t i = 0; i < tensor->numel(); ++i) {
    out[i] = static_cast<float>((2 * rng.Uniform() - 1) * bound);
  }
  return *std::move(tensor);
}

Mlp::Mlp(const std::vector<int64_t>& widths, uint64_t seed) {
  SeededRng rng(seed);
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const double bound = 1 / std::sqrt(static_cast<double>(widths[i]));
    parameters_.push_back(UniformTensor({widths[i + 1], widths[i]}, bound, rng));
    parameters_.push_back(UniformTensor({widths[i + 1]}, bound, rng));
  }
  for (at::Tensor& parameter : parameters_) parameter.set_requires_grad(true);
}

std::vector<NamedParameter> Mlp::named_parameters() const {
  std::vector<NamedParameter> named;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    named.push_back({absl::StrCat(i / 2 * 2, i % 2 == 0 ? ".weight" : ".bias"), parameters_[i]});
  }
  return named;
}

at::Tensor Mlp::forward(at::Tensor x) const {
  for (size_t i = 0; i < parameters_.size(); i += 2) {
    if (i > 0) x = x.relu();
    x = Linear(x, parameters_[i], parameters_[i + 1]);
  }
  return x;
}

}  // namespace gradwire::worker
