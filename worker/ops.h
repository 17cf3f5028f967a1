// The few operations of libtorch that the built-in jobs use, without its heavy headers.
//
// Shapes:        x float32 [n, in], weight [out, in], bias [out]; logits [n, classes], labels int64
//                [n].
// Errors:        throw as libtorch does; a job runs inside the fence.
// Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/tensor/torch.h"
#include "worker/job.h"

namespace gradwire::worker {

// x · weightᵀ + bias.
at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
// Mean over the rows of -log softmax(logits)[label].
at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& labels);
// Mean over the rows of the negative log-likelihood of labels, 0 or 1, under σ(logit); float32 [n]
// both.
at::Tensor LogLoss(const at::Tensor& logits, const at::Tensor& labels);
// The share of rows whose largest logit is the label's.
double Accuracy(const at::Tensor& logits, const at::Tensor& labels);
// float32, uniform in [-bound, bound), from `rng` in row-major order.
at::Tensor UniformTensor(at::IntArrayRef sizes, double bound, Rng& rng);

// A multi-layer perceptron: Linear, ReLU, Linear, …. Initial values as torch.nn.Linear's: uniform
// within 1/√in (He et al. 2015 with a = √5).
class Mlp {
 public:
  // widths: inputs, hidden …, outputs.
  Mlp(const std::vector<int64_t>& widths, uint64_t seed);
  at::Tensor forward(at::Tensor x) const;
  // weight, bias of each layer.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // "0.weight", "0.bias", "2.weight", …: as torch.nn.Sequential(Linear, ReLU, Linear, …) names
  // them.
  std::vector<NamedParameter> named_parameters() const;

 private:
  std::vector<at::Tensor> parameters_;
};

}  // namespace gradwire::worker
