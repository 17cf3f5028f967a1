// Clicks of a planted logistic model over Zipf ids: a sparse load of any size that needs no file.
//
//   worker --job=synthetic_ctr --set=rows=1e6,fields=16,ids=1e6,skew=1.1,dim=8
#include <algorithm>
#include <iostream>

#include "worker/data/ctr.h"
#include "worker/job.h"
#include "worker/ops.h"

namespace gradwire::worker {
namespace {

absl::Status TrainSyntheticCtr(JobContext& job) {
  data::CtrOptions clicks{
      .rows = static_cast<int64_t>(job.Setting("rows", 200'000, 1, 1e12)),
      .fields = static_cast<int64_t>(job.Setting("fields", 8, 1, 10'000)),
      .ids = static_cast<int64_t>(job.Setting("ids", 10'000, 1, 1e12)),
      .skew = job.Setting("skew", 1.1, 1.001, 100),
      .seed = job.seed(),
  };
  // Floats of a row; the logit takes their mean, so that more make rows wider and nothing else.
  const auto dim = static_cast<int64_t>(job.Setting("dim", 1, 1, 4096));
  GW_ASSIGN_OR_RETURN(const data::CtrSet train, data::CtrSet::Create(clicks));
  clicks.first_row = clicks.rows;
  clicks.rows = std::max<int64_t>(1, clicks.rows / 10);
  GW_ASSIGN_OR_RETURN(const data::CtrSet test, data::CtrSet::Create(clicks));

  const optim::Adagrad rule{.lr = job.lr(0.1), .initial_accumulator = 0.1};
  GW_ASSIGN_OR_RETURN(Embedding weights, job.ps().Embedding("ctr", {.dim = dim, .rule = rule}));
  GW_ASSIGN_OR_RETURN(Embedding bias, job.ps().Embedding("ctr_bias", {.dim = 1, .rule = rule}));
  GW_ASSIGN_OR_RETURN(const at::Tensor only, rpc::Zeros({1}, at::kLong));
  const auto logits = [&](const data::CtrSet::Batch& batch,
                          bool create) -> absl::StatusOr<at::Tensor> {
    const LookupOptions options{.create = create};
    GW_ASSIGN_OR_RETURN(PendingLookup rows, weights.StartLookup(batch.ids, options));
    GW_ASSIGN_OR_RETURN(PendingLookup constant, bias.StartLookup(only, options));
    GW_ASSIGN_OR_RETURN(const at::Tensor w, rows.Wait());  // [n, fields, dim]
    GW_ASSIGN_OR_RETURN(const at::Tensor b, constant.Wait());
    return w.mean(2).sum(1).add(b.squeeze());
  };
  for (const auto& batch :
       job.Batches(train, {.rows = job.batch_rows(512), .epochs = job.epochs(3)})) {
    GW_ASSIGN_OR_RETURN(const at::Tensor logit, logits(batch, /*create=*/true));
    const at::Tensor loss = LogLoss(logit, batch.clicks);
    // Of the batch's sum: a row's gradient then doesn't depend on who else is in the batch.
    loss.mul(batch.rows()).backward();
    GW_RETURN_IF_ERROR(weights.StartPush());
    GW_RETURN_IF_ERROR(bias.StartPush());
    job.Report({.loss = loss, .rows = batch.rows()});
  }
  GW_RETURN_IF_ERROR(job.status());
  GW_RETURN_IF_ERROR(weights.WaitPush());
  GW_RETURN_IF_ERROR(bias.WaitPush());
  if (job.rank() == 0) {
    std::cout << "synthetic_ctr: the planted model's own log loss is " << test.PlantedLogLoss()
              << std::endl;
  }
  return job.Evaluate(test, "log_loss", [&](const auto& batch) -> absl::StatusOr<double> {
    GW_ASSIGN_OR_RETURN(const at::Tensor logit, logits(batch, /*create=*/false));
    return LogLoss(logit, batch.clicks).template item<double>();
  });
}
GW_JOB("synthetic_ctr", TrainSyntheticCtr);

}  // namespace
}  // namespace gradwire::worker
