// What a worker says of itself while it trains, as one line of text: the protocol between a worker
// and `gradwire run`.
//
//   progress=1 rank=0 epoch=3 epochs=10 rows=9600 row_count=40000 rows_per_second=31250.5 loss=0.41
//   staleness=1.5 data=0.1 pull=0.3 compute=1.9 push=0.2 wait=0              (one line, no newline)
//   progress=1 … done=1 quality_name=accuracy quality=0.923
//   progress=1 … done=1 error=ps0\040did\040not\040come\040back
//
// Meaning:       every line is the whole state, so one that is lost is made good by the next.
// Syntax:        key=value, separated by single spaces; "progress" (the version) first, others in
//                any order, each at most once; rank is required. Text is C-escaped, a space as
//                \040, so that no value can forge a field or a second line.
// Limits:        kMaxProgressLineBytes a line with its newline (one write to a pipe is then whole),
//                kMaxProgressErrorBytes of error; Encode cuts, Parse refuses.
// Thread-safety: stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gradwire::launch {

inline constexpr size_t kMaxProgressLineBytes = 4096;
inline constexpr size_t kMaxProgressErrorBytes = 512;
inline constexpr size_t kMaxQualityNameBytes = 32;
inline constexpr int kMaxProgressRank = 4095;

// Where the time of a worker's steps went, summed since its first step. They exclude each other:
// their total is the time that it trained.
struct StepSplit {
  absl::Duration data = {};     // waiting for the loader
  absl::Duration pull = {};     // waiting for parameters
  absl::Duration compute = {};  // forward and backward
  absl::Duration push = {};     // handing over gradients, and waiting for the answer
  absl::Duration wait = {};     // for other workers

  absl::Duration total() const { return data + pull + compute + push + wait; }
  friend bool operator==(const StepSplit&, const StepSplit&) = default;
};

// How good the model is on data that it has not seen.
struct Quality {
  std::string name;  // "accuracy", "rmse": [a-z0-9_], 1 to kMaxQualityNameBytes
  double value = 0;  // may be NaN or infinite: training diverges
  friend bool operator==(const Quality&, const Quality&) = default;
};

struct Progress {
  int rank = 0;                           // 0 to kMaxProgressRank
  int64_t epoch = 0;                      // the one that runs, from 1; 0: none has begun
  int64_t epoch_count = 0;                // 0: not known
  int64_t rows = 0;                       // done by this worker so far, in all epochs
  int64_t row_count = 0;                  // planned for this worker, in all epochs; 0: not known
  double rows_per_second = 0;             // lately; finite, not negative
  std::optional<double> loss = {};        // lately, mean a row; may be NaN or infinite
  std::optional<double> staleness = {};   // mean, in pushes of others between a pull and its push
  StepSplit split = {};                   // to the microsecond
  bool done = false;                      // the last line of this life
  std::optional<Quality> quality = {};    // of the finished model
  std::optional<std::string> error = {};  // why it failed; any bytes
};

// One line without its newline, at most kMaxProgressLineBytes with it. What is out of range is
// brought into it (a negative count is 0, a rate that isn't finite is 0); a quality whose name
// can't be one is left out.
std::string EncodeProgress(const Progress& progress);

// `line` without its newline. INVALID_ARGUMENT names the key and what is allowed.
absl::StatusOr<Progress> ParseProgress(absl::string_view line);

}  // namespace gradwire::launch
