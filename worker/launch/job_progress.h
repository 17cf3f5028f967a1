// How far a whole job is: the last progress of each worker, put together and shown.
//
// Sums:          rows, rates. Means over the workers that said it: loss, staleness, and the step
//                split by time. The epoch is that of the slowest. The quality is that of the worker
//                with the lowest rank that has one.
// Restarts:      a worker that was started again counts from its new beginning.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/launch/progress.h"

namespace gradwire::launch {

class JobProgress {
 public:
  explicit JobProgress(int worker_count) : worker_count_(worker_count) {}

  void Take(const Progress& progress, absl::Time now);
  // Its life has ended; it does nothing more for the rate.
  void OnEnd(int rank);

  bool empty() const { return last_.empty(); }
  int64_t rows() const;
  double rows_per_second() const;
  std::optional<double> loss() const;
  std::optional<double> staleness() const;
  std::optional<Quality> quality() const;
  StepSplit split() const;
  // The longest that a worker trained.
  absl::Duration training_time() const;
  // When a worker first had rows behind it.
  std::optional<absl::Time> first_step() const { return first_step_; }
  // What the worker said of its failure.
  std::optional<std::string> error(int rank) const;
  // From 0 to 1, as far as it is known.
  std::optional<double> fraction() const;
  std::optional<absl::Duration> time_left() const;

  // "[====>     ]  42%  epoch 5/10  ...", ASCII; what doesn't fit into `width` is left out.
  std::string Bar(size_t width) const;
  // The same as words.
  std::string Words() const;

 private:
  struct Worker {
    Progress progress;
    bool ended = false;
  };
  std::string Facts(absl::string_view separator, size_t width) const;

  const int worker_count_;
  std::map<int, Worker> last_;
  std::optional<absl::Time> first_step_;
};

// 31 250 as "31250", 1.25 million as "1.25M".
std::string RateText(double per_second);
// "1h05m", "2m07s", "12.3s", "45ms".
std::string TimeText(absl::Duration duration);

}  // namespace gradwire::launch
