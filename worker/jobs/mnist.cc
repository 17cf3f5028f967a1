// Digits: an MLP 784-1024-10 on 4 000 images, judged on 1 000 others.
#include "rpc/base/fs.h"
#include "worker/data/digits.h"
#include "worker/job.h"
#include "worker/ops.h"

namespace gradwire::worker {
namespace {

absl::Status TrainMnist(JobContext& job) {
  GW_ASSIGN_OR_RETURN(const data::Digits digits,
                      data::Digits::Load(job.data_dir(), FileSystem::Real()));
  Mlp model({784, 1024, 10}, job.seed());
  GW_ASSIGN_OR_RETURN(Dense weights, job.ps().Dense("mlp", model.parameters(),
                                                    {.rule = optim::Sgd{.lr = job.lr(0.1)},
                                                     .overlap = job.overlap()}));
  GW_RETURN_IF_ERROR(weights.Pull());
  for (const auto& batch :
       job.Batches(digits.train, {.rows = job.batch_rows(32), .epochs = job.epochs(10)})) {
    const at::Tensor loss = CrossEntropy(model.forward(batch.x), batch.y);
    loss.backward();
    GW_RETURN_IF_ERROR(weights.PushPull());  // one round trip: gradients there, weights back
    job.Report({.loss = loss, .rows = batch.rows()});
  }
  GW_RETURN_IF_ERROR(job.status());
  GW_RETURN_IF_ERROR(weights.WaitPush());
  GW_RETURN_IF_ERROR(job.Evaluate(digits.test, "accuracy", [&](const auto& batch) {
    return Accuracy(model.forward(batch.x), batch.y);
  }));
  return job.Save(model.named_parameters());
}
GW_JOB("mnist", TrainMnist);

}  // namespace
}  // namespace gradwire::worker
