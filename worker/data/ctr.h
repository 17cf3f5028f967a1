// CtrSet: clicks drawn from a planted logistic model over Zipf-distributed ids; any size, no file.
//
// Model:         a row has one id of each field. Within a field ids 1 … K come with probability
//                proportional to k^-skew (Hörmann and Derflinger, "Rejection-inversion to generate
//                variates from monotone discrete distributions", 1996). A click has the probability
//                σ(b + Σ w(id)), b = -1, w uniform with variance 4 / fields.
// Determinism:   row i depends on (seed, i) alone. The same program, the same rows.
// Shapes:        ids int64 [n, fields], from 1, those of different fields differ; clicks float32
//                [n], 0 or 1.
// Errors:        INVALID_ARGUMENT naming the option.
// Thread-safety: values that don't change.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "rpc/tensor/torch.h"

namespace gradwire::data {

struct CtrOptions {
  int64_t first_row = 0;  // row 0 of the set is this one of the model's endless sequence
  int64_t rows = 0;
  int64_t fields = 1;
  int64_t ids = 1;    // of a field
  double skew = 1.1;  // above 1
  uint64_t seed = 0;
};

class CtrSet {
 public:
  struct Batch {
    at::Tensor ids;
    at::Tensor clicks;
    int64_t epoch = 0;
    int64_t rows() const { return clicks.numel(); }
  };

  static absl::StatusOr<CtrSet> Create(const CtrOptions& options);

  int64_t row_count() const { return options_.rows; }
  // `rows`: each below row_count().
  absl::StatusOr<Batch> Take(std::span<const int64_t> rows) const;
  // The planted model's own log loss on these rows, in nats: no model does better on the whole.
  double PlantedLogLoss() const;

 private:
  struct Row {
    double probability;
    bool click;
  };
  explicit CtrSet(const CtrOptions& options) : options_(options) {}
  // ids: [fields], or empty when nobody wants them.
  Row Draw(int64_t row, std::span<int64_t> ids) const;
  double Weight(int64_t id) const;

  CtrOptions options_;
};

}  // namespace gradwire::data
