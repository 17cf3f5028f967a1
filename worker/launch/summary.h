// What a job came to, for people at the end of `gradwire run` and for scripts in --summary.
//
// Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "worker/launch/job_progress.h"

namespace gradwire::launch {

struct Summary {
  int exit_status = 0;
  std::string error = {};  // of the job; "": none
  int server_count = 0;
  int worker_count = 0;
  int restart_count = 0;
  absl::Duration time = {};                               // from the start of gradwire to here
  std::optional<absl::Duration> time_to_first_step = {};  // of the first worker that had one
  const JobProgress* progress = nullptr;                  // never null where it is printed
};

// Rows a second of the whole job while it trained; 0 where that is not known.
double SamplesPerSecond(const JobProgress& progress);

// A few lines with a newline each.
std::string SummaryText(const Summary& summary);
// Lines "key = value"; what is not known is left out. Shares are of the workers' time together.
//   status = 0                 servers = 1          workers = 2            restarts = 0
//   seconds = 12.3             first_step_seconds = 0.8                    training_seconds = 10.5
//   rows = 80000               samples_per_second = 7619.05
//   quality_name = accuracy    quality = 0.923      loss = 0.21            staleness = 1.02
//   data_percent = 1.2         pull_percent = …     compute_percent = …    push_percent = …
//   wait_percent = …           error = text, escaped as in C
std::string SummaryLines(const Summary& summary);

}  // namespace gradwire::launch
