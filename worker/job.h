// JobContext: what a training job is given; GW_JOB: how it is found by its name.
//
//   absl::Status Train(worker::JobContext& job) {
//     GW_ASSIGN_OR_RETURN(auto digits, data::Digits::Load(job.data_dir(), FileSystem::Real()));
//     …
//     for (const auto& batch : job.Batches(digits.train, {.rows = 32, .epochs = 10})) {
//       …
//       job.Report({.loss = loss, .rows = batch.rows()});
//     }
//     GW_RETURN_IF_ERROR(job.status());
//     return job.Evaluate(digits.test, "accuracy", [&](const auto& batch) { return …; });
//   }
//   GW_JOB("mine", Train);
//
// Thread-safety: a job runs on one thread; RequestStop may be called by any.
// Errors:        what a job returns ends the process with status 1 and is shown as its error;
//                exceptions of libtorch are caught.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/agent.h"
#include "rpc/base/mutex.h"
#include "rpc/tensor/torch.h"
#include "worker/client/client.h"
#include "worker/data/batches.h"
#include "worker/data/tensorboard.h"
#include "worker/launch/progress_writer.h"

namespace gradwire::worker {

// What flags say to every job; 0 or -1: the job's own default.
struct JobFlags {
  std::string data_dir = ".deps/data";
  uint64_t seed = 1;
  int64_t epochs = 0;
  int64_t batch_rows = 0;
  double lr = -1;
  bool overlap = false;
  absl::Duration report_every = absl::Milliseconds(200);
  std::string tensorboard = {};            // folder of event files; empty: none
  std::string save = {};                   // the trained model's file; empty: none
  std::vector<std::string> settings = {};  // a job's own, "name=value"
};

struct BatchPlan {
  // Required. Rows of a batch; the last one of an epoch may have fewer.
  int64_t rows = 0;
  int64_t epochs = 1;
  // Default: 2. Batches prepared ahead; 0: none, and no thread.
  size_t prefetch = 2;
};

struct StepReport {
  // The batch's, a mean over its rows. One element.
  at::Tensor loss = {};
  int64_t rows = 0;
};

// A part of a trained model: float32 or any other element that safetensors has, on the CPU.
struct NamedParameter {
  std::string name;
  at::Tensor value;
};

class JobContext;

// A range of batches that tells the job how it ended.
template <class D>
class JobBatches {
 public:
  JobBatches(JobContext* job, const D& dataset, const data::BatchOptions& options);
  ~JobBatches();
  auto begin() { return batches_.begin(); }
  auto end() { return batches_.end(); }

 private:
  JobContext* const job_;
  data::Batches<D> batches_;
};

class JobContext {
 public:
  JobContext(Client* client, JobFlags flags, int rank, int world, launch::ProgressWriter progress);
  JobContext(const JobContext&) = delete;
  JobContext& operator=(const JobContext&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  uint64_t seed() const { return flags_.seed; }
  const std::string& data_dir() const { return flags_.data_dir; }
  Client& ps() { return *client_; }

  // What --epochs, --batch-rows and --lr say, or `otherwise`.
  int64_t epochs(int64_t otherwise) const { return flags_.epochs > 0 ? flags_.epochs : otherwise; }
  int64_t batch_rows(int64_t otherwise) const {
    return flags_.batch_rows > 0 ? flags_.batch_rows : otherwise;
  }
  double lr(double otherwise) const { return flags_.lr >= 0 ? flags_.lr : otherwise; }
  // --overlap: communication behind computation, for a step more of staleness.
  bool overlap() const { return flags_.overlap; }

  // What --set=NAME=VALUE says, or `otherwise`, which is shown where a name is refused. Ask for all
  // before the first Batches: it ends with INVALID_ARGUMENT where a name was set that nobody asked
  // for, or a value isn't a number in [min, max].
  double Setting(const std::string& name, double otherwise, double min, double max);

  // This worker's share of `dataset`, in another order every epoch; each row once an epoch over all
  // workers. Ends early on an error or a stop: see status().
  template <class D>
  JobBatches<D> Batches(const D& dataset, const BatchPlan& plan) {
    return JobBatches<D>(this, dataset,
                         {.rows = plan.rows,
                          .epochs = plan.epochs,
                          .rank = rank_,
                          .world = world_,
                          .seed = flags_.seed,
                          .prefetch = plan.prefetch});
  }

  // One step is done: progress, throughput, where its time went.
  void Report(const StepReport& step);

  // Why the batches ended early: a data file, an interrupt. OK: they came to their end.
  absl::Status status() const;

  // Rank 0 waits until the others have trained, takes the newest weights of all dense tables, and
  // judges the model: the mean of `judge(batch)` over `dataset`, weighted by rows; `finish` turns
  // it into the quality (a root, for instance).
  template <class D, class Judge>
  absl::Status Evaluate(const D& dataset, const std::string& name, const Judge& judge,
                        const std::function<double(double)>& finish = nullptr);

  // Whether this process writes the trained model: rank 0, with --save=FILE.
  bool saves() const { return rank_ == 0 && !flags_.save.empty(); }
  // Where saves(): writes the file (safetensors), in one step. After Evaluate, which takes the
  // newest dense weights.
  absl::Status Save(const std::vector<NamedParameter>& model);

  // Ends Batches soon; `why` becomes status().
  void RequestStop(const absl::Status& why);

  // With --tensorboard: opens this worker's file, in a folder `name`. Called by Main.
  absl::Status OpenEvents(const std::string& name);
  // What the process says last. Called by Main.
  void Finish(const absl::Status& outcome);
  const launch::Progress& progress() const { return progress_; }
  absl::Duration trained_for() const { return trained_for_; }
  // Waits for the other workers; set by Main.
  std::function<absl::Status()> wait_for_others;

 private:
  template <class D>
  friend class JobBatches;

  void Begin(int64_t epochs, int64_t planned_rows, std::function<void()> cancel,
             std::function<absl::Duration()> data_time);
  void NoteEnd(const absl::Status& status);
  absl::Status CheckSettings() const;
  void UpdateSplit(absl::Time now);
  void SetQuality(const std::string& name, double value);
  void WriteEvents();

  Client* const client_;
  const JobFlags flags_;
  const int rank_;
  const int world_;
  launch::ProgressWriter writer_;
  launch::Progress progress_;
  ClientTimes times_before_;
  absl::Duration data_before_;  // of ranges that are over
  std::function<absl::Duration()> data_time_;
  absl::Time began_ = absl::InfinitePast();
  absl::Duration trained_for_;
  absl::Time reported_at_ = absl::InfinitePast();
  int64_t rows_at_report_ = 0;
  double loss_sum_ = 0;
  int64_t loss_rows_ = 0;
  int64_t steps_ = 0;
  std::unique_ptr<data::EventWriter> events_;
  std::set<std::string> asked_;      // names of settings
  std::string first_wrong_setting_;  // what is wrong with it
  int64_t evaluation_rows_ = 1000;
  mutable Mutex mu_;
  absl::Status stop_ GW_GUARDED_BY(mu_);
  absl::Status ended_ GW_GUARDED_BY(mu_);
  std::function<void()> cancel_ GW_GUARDED_BY(mu_);
};

using JobFunction = absl::Status (*)(JobContext&);

// The jobs of this program, by name.
class JobRegistry {
 public:
  // At static initialization: GW_JOB.
  JobRegistry(const char* name, JobFunction function);
  // NOT_FOUND with those that there are; INVALID_ARGUMENT: a name twice.
  static absl::StatusOr<JobFunction> Find(const std::string& name);
  static std::vector<std::string> Names();

 private:
  const char* const name_;
  const JobFunction function_;
  const JobRegistry* next_;
};

// ---- implementation of the templates ----

template <class D>
JobBatches<D>::JobBatches(JobContext* job, const D& dataset, const data::BatchOptions& options)
    : job_(job), batches_(dataset, options) {
  job_->Begin(
      options.epochs, batches_.planned_rows(), [this] { batches_.Cancel(); },
      [this] { return batches_.wait_time(); });
}

template <class D>
JobBatches<D>::~JobBatches() {
  job_->NoteEnd(batches_.status());
}

template <class D, class Judge>
absl::Status JobContext::Evaluate(const D& dataset, const std::string& name, const Judge& judge,
                                  const std::function<double(double)>& finish) {
  UpdateSplit(Clock::Real().Now());
  if (wait_for_others) GW_RETURN_IF_ERROR(wait_for_others());
  if (rank_ != 0) return absl::OkStatus();
  GW_RETURN_IF_ERROR(client_->Refresh());
  double sum = 0;
  std::vector<int64_t> rows;
  for (int64_t begin = 0; begin < dataset.row_count(); begin += evaluation_rows_) {
    rows.clear();
    const int64_t end = std::min(dataset.row_count(), begin + evaluation_rows_);
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
    GW_ASSIGN_OR_RETURN(const auto batch, dataset.Take(rows));
    GW_ASSIGN_OR_RETURN(
        const double part,
        rpc::TorchToStatus("Evaluate", [&]() -> absl::StatusOr<double> { return judge(batch); }));
    sum += part * static_cast<double>(end - begin);
  }
  const double mean = sum / static_cast<double>(std::max<int64_t>(dataset.row_count(), 1));
  SetQuality(name, finish ? finish(mean) : mean);
  return absl::OkStatus();
}

}  // namespace gradwire::worker

// At namespace scope: `worker --job=NAME` runs `function`, an absl::Status(worker::JobContext&).
#define GW_JOB(name, function)                                                 \
  [[maybe_unused]] static const ::gradwire::worker::JobRegistry GW_STATUS_CAT( \
      gw_job_, __COUNTER__)(name, function)
