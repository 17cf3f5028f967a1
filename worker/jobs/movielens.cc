// Movie ratings: global mean, biases and factors of 32; what Koren, Bell and Volinsky ("Matrix
// Factorization Techniques for Recommender Systems", 2009, eq. 5) minimize, per batch.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "rpc/base/fs.h"
#include "worker/data/ratings.h"
#include "worker/job.h"

namespace gradwire::worker {
namespace {

constexpr double kPenalty = 0.1;

struct Model {
  Embedding users;
  Embedding items;
  Embedding user_bias;
  Embedding item_bias;
  float mean = 0;

  static absl::StatusOr<Model> Create(JobContext& job, float mean) {
    const optim::Adagrad rule{.lr = job.lr(0.1), .initial_accumulator = 0.1, .eps = 0};
    const EmbeddingOptions factors{.dim = 32, .rule = rule, .init = optim::Normal(0, 0.1)};
    const EmbeddingOptions bias{.dim = 1, .rule = rule};
    GW_ASSIGN_OR_RETURN(Embedding users, job.ps().Embedding("user", factors));
    GW_ASSIGN_OR_RETURN(Embedding items, job.ps().Embedding("item", factors));
    GW_ASSIGN_OR_RETURN(Embedding user_bias, job.ps().Embedding("user_bias", bias));
    GW_ASSIGN_OR_RETURN(Embedding item_bias, job.ps().Embedding("item_bias", bias));
    return Model{std::move(users), std::move(items), std::move(user_bias), std::move(item_bias),
                 mean};
  }

  struct Rows {
    at::Tensor user, item, user_bias, item_bias;
  };
  absl::StatusOr<Rows> Lookup(const data::RatingsSet::Batch& batch, bool create) {
    const LookupOptions options{.create = create};
    // Together: one round trip.
    GW_ASSIGN_OR_RETURN(PendingLookup u, users.StartLookup(batch.user_ids, options));
    GW_ASSIGN_OR_RETURN(PendingLookup i, items.StartLookup(batch.item_ids, options));
    GW_ASSIGN_OR_RETURN(PendingLookup ub, user_bias.StartLookup(batch.user_ids, options));
    GW_ASSIGN_OR_RETURN(PendingLookup ib, item_bias.StartLookup(batch.item_ids, options));
    Rows rows;
    GW_ASSIGN_OR_RETURN(rows.user, u.Wait());
    GW_ASSIGN_OR_RETURN(rows.item, i.Wait());
    GW_ASSIGN_OR_RETURN(rows.user_bias, ub.Wait());
    GW_ASSIGN_OR_RETURN(rows.item_bias, ib.Wait());
    return rows;
  }
  // float32 [n].
  at::Tensor Predict(const Rows& rows) const {
    return rows.user.mul(rows.item)
        .sum(1)
        .add(rows.user_bias.add(rows.item_bias).squeeze(1))
        .add(mean);
  }
  // The next batch's lookups see it; its errors come with the next push.
  absl::Status StartPush() {
    GW_RETURN_IF_ERROR(users.StartPush());
    GW_RETURN_IF_ERROR(items.StartPush());
    GW_RETURN_IF_ERROR(user_bias.StartPush());
    return item_bias.StartPush();
  }
  absl::Status WaitPush() {
    GW_RETURN_IF_ERROR(users.WaitPush());
    GW_RETURN_IF_ERROR(items.WaitPush());
    GW_RETURN_IF_ERROR(user_bias.WaitPush());
    return item_bias.WaitPush();
  }
};

int64_t Largest(std::span<const int64_t> ids) {
  return ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end());
}

// Row i is id i, also for ids that the training part lacks: their initial value.
absl::Status SaveModel(JobContext& job, Model& model, const data::Ratings& ratings) {
  if (!job.saves()) return absl::OkStatus();
  const auto all = [](const auto& train, const auto& test) -> absl::StatusOr<at::Tensor> {
    const int64_t count = std::max(Largest(train), Largest(test)) + 1;
    GW_ASSIGN_OR_RETURN(at::Tensor ids, rpc::Empty({count}, at::kLong));
    auto* data = static_cast<int64_t*>(ids.mutable_data_ptr());
    std::iota(data, data + count, int64_t{0});
    return ids;
  };
  GW_ASSIGN_OR_RETURN(const at::Tensor users,
                      all(ratings.train.rows().users, ratings.test.rows().users));
  GW_ASSIGN_OR_RETURN(const at::Tensor items,
                      all(ratings.train.rows().items, ratings.test.rows().items));
  const LookupOptions look{.create = false};
  std::vector<NamedParameter> saved;
  const auto add = [&](const std::string& name, Embedding& table,
                       const at::Tensor& ids) -> absl::Status {
    GW_ASSIGN_OR_RETURN(at::Tensor rows, table.Lookup(ids, look));
    saved.push_back({name, std::move(rows)});
    return absl::OkStatus();
  };
  GW_RETURN_IF_ERROR(add("user", model.users, users));
  GW_RETURN_IF_ERROR(add("item", model.items, items));
  GW_RETURN_IF_ERROR(add("user_bias", model.user_bias, users));
  GW_RETURN_IF_ERROR(add("item_bias", model.item_bias, items));
  GW_ASSIGN_OR_RETURN(at::Tensor mean, rpc::Empty({1}, at::kFloat));
  *static_cast<float*>(mean.mutable_data_ptr()) = ratings.mean();
  saved.push_back({"mean", std::move(mean)});
  return job.Save(saved);
}

absl::Status TrainMovieLens(JobContext& job) {
  GW_ASSIGN_OR_RETURN(const data::Ratings ratings,
                      data::Ratings::Load(job.data_dir(), FileSystem::Real()));
  GW_ASSIGN_OR_RETURN(Model model, Model::Create(job, ratings.mean()));
  for (const auto& batch :
       job.Batches(ratings.train, {.rows = job.batch_rows(256), .epochs = job.epochs(10)})) {
    GW_ASSIGN_OR_RETURN(const Model::Rows rows, model.Lookup(batch, /*create=*/true));
    const at::Tensor error = model.Predict(rows).sub(batch.ratings);
    const at::Tensor squared = error.mul(error).sum();
    const at::Tensor penalty = rows.user.mul(rows.user)
                                   .sum()
                                   .add(rows.item.mul(rows.item).sum())
                                   .add(rows.user_bias.mul(rows.user_bias).sum())
                                   .add(rows.item_bias.mul(rows.item_bias).sum());
    // ½ Σ err² + ½ · 0.1 · Σ (‖u‖² + ‖i‖² + b²), over the batch's ratings.
    squared.add(penalty, kPenalty).mul(0.5).backward();
    GW_RETURN_IF_ERROR(model.StartPush());
    job.Report({.loss = squared.detach().div(batch.rows()), .rows = batch.rows()});
  }
  GW_RETURN_IF_ERROR(job.status());
  GW_RETURN_IF_ERROR(model.WaitPush());
  GW_RETURN_IF_ERROR(job.Evaluate(
      ratings.test, "rmse",
      [&](const auto& batch) -> absl::StatusOr<double> {
        GW_ASSIGN_OR_RETURN(const Model::Rows rows, model.Lookup(batch, /*create=*/false));
        const at::Tensor error = model.Predict(rows).clamp(1, 5).sub(batch.ratings);
        return error.mul(error).mean().template item<double>();
      },
      [](double mean) { return std::sqrt(mean); }));
  return SaveModel(job, model, ratings);
}
GW_JOB("movielens", TrainMovieLens);

}  // namespace
}  // namespace gradwire::worker
