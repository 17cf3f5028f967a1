// Batches: the batches of a dataset for one worker, prepared ahead by a thread.
//
//   data::Batches<DigitsSet> batches(set, {.rows = 32, .epochs = 10});
//   for (const auto& batch : batches) { … }
//   GW_RETURN_IF_ERROR(batches.status());
//
// A dataset D has `Batch`, `int64_t row_count() const`, and `absl::StatusOr<Batch>
// Take(std::span<const int64_t> rows) const`, which the thread calls; Batch has a field `epoch`.
//
// Ownership:     the dataset must outlive it. A batch is valid until the next step.
// Thread-safety: one consumer; Cancel by any thread.
// Errors:        the range ends; status() says why. CANCELLED after Cancel.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "worker/data/sampler.h"

namespace gradwire::data {

struct BatchOptions {
  // Required. Rows of a batch; the last of an epoch may have fewer.
  int64_t rows = 0;
  int64_t epochs = 1;
  int rank = 0;
  int world = 1;
  uint64_t seed = 0;
  // Default: 2. Batches prepared ahead; 0: none, and no thread.
  size_t prefetch = 2;
};

template <class D>
class Batches {
 public:
  using Batch = typename D::Batch;

  Batches(const D& dataset, const BatchOptions& options)
      : dataset_(dataset),
        prefetch_(options.prefetch),
        sampler_(ShardedSampler::Create({.row_count = dataset.row_count(),
                                         .batch_rows = options.rows,
                                         .epochs = options.epochs,
                                         .rank = options.rank,
                                         .world = options.world,
                                         .seed = options.seed})) {
    if (sampler_.ok() && prefetch_ > 0) thread_ = std::thread([this] { Prepare(); });
  }
  ~Batches() {
    {
      MutexLock lock(mu_);
      left_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // The next batch; nothing at the end, which status() explains.
  std::optional<Batch> Next() {
    const absl::Time start = Clock::Real().Now();
    std::optional<Batch> batch = prefetch_ == 0 ? Make() : Take();
    wait_ += Clock::Real().Now() - start;
    return batch;
  }

  void Cancel() {
    MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }

  absl::Status status() const {
    if (!sampler_.ok()) return sampler_.status();
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    return cancelled_ ? absl::CancelledError("the batches were cancelled") : absl::OkStatus();
  }
  int64_t planned_rows() const { return sampler_.ok() ? sampler_->planned_rows() : 0; }
  // What the consumer has waited in Next so far.
  absl::Duration wait_time() const { return wait_; }

  class Iterator {
   public:
    explicit Iterator(Batches* batches) : batches_(batches) { ++*this; }
    Iterator& operator++() {
      batch_ = batches_->Next();
      return *this;
    }
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    bool operator==(std::nullptr_t) const { return !batch_.has_value(); }

   private:
    Batches* batches_;
    std::optional<Batch> batch_;
  };
  // Once: a second range-for goes on where the first stopped.
  Iterator begin() { return Iterator(this); }
  std::nullptr_t end() { return nullptr; }

 private:
  // Makes the next batch, on whichever thread; nothing at the end or on an error.
  std::optional<Batch> Make() {
    int64_t epoch = 0;
    {
      MutexLock lock(mu_);
      if (cancelled_ || left_) return std::nullopt;
    }
    if (!sampler_.ok() || !sampler_->Next(rows_, epoch)) return std::nullopt;
    absl::StatusOr<Batch> batch = TakeSafely();
    if (!batch.ok()) {
      MutexLock lock(mu_);
      error_.Update(batch.status());
      return std::nullopt;
    }
    batch->epoch = epoch;
    return *std::move(batch);
  }

  // An exception of a user's dataset must not end the process.
  absl::StatusOr<Batch> TakeSafely() {
    try {
      return dataset_.Take(rows_);
    } catch (const std::exception& thrown) {
      return absl::InternalError(absl::StrCat("taking a batch threw: ", thrown.what()));
    }
  }

  void Prepare() {
    while (true) {
      std::optional<Batch> batch = Make();
      MutexLock lock(mu_);
      if (!batch) {
        ended_ = true;
        changed_.NotifyAll();
        return;
      }
      while (ready_.size() >= prefetch_ && !cancelled_ && !left_) changed_.Wait(mu_);
      ready_.push_back(*std::move(batch));
      changed_.NotifyAll();
    }
  }

  std::optional<Batch> Take() {
    MutexLock lock(mu_);
    if (!thread_.joinable()) return std::nullopt;
    while (ready_.empty() && !ended_ && !cancelled_) changed_.Wait(mu_);
    if (ready_.empty() || cancelled_) return std::nullopt;
    std::optional<Batch> batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.NotifyAll();
    return batch;
  }

  const D& dataset_;
  const size_t prefetch_;
  absl::StatusOr<ShardedSampler> sampler_;  // of whoever makes batches
  std::vector<int64_t> rows_;
  absl::Duration wait_;
  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Batch> ready_ GW_GUARDED_BY(mu_);
  bool ended_ GW_GUARDED_BY(mu_) = false;
  bool cancelled_ GW_GUARDED_BY(mu_) = false;
  bool left_ GW_GUARDED_BY(mu_) = false;  // the consumer goes
  absl::Status error_ GW_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace gradwire::data
