// PushWindow: which pushes were applied already, with their answers; lies beside the rows.
//
// A worker numbers its pushes; a repeated one gets the first one's answer and changes nothing. With
// each push the worker says `finished_below`, the smallest number whose answer it still waits for:
// answers below are forgotten, pushes below are refused. A newer incarnation of a worker replaces
// the older one, whose late pushes are refused from then on: a zombie can't write.
//
//   GW_ASSIGN_OR_RETURN(auto seen, window.Admit(push, finished_below));
//   if (seen) return *seen;                  // a repetition
//   … apply …
//   window.Record(push, answer);             // can't fail after Admit
//
// Order:         none: pushes may arrive in any order above finished_below.
// Thread-safety: one thread at a time, the owner's of the rows.
// Limits:        max_answers_per_worker, max_workers -> RESOURCE_EXHAUSTED.
// Errors:        FAILED_PRECONDITION: an older incarnation, or a number below finished_below. Not
// to
//                be repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rpc/base/id.h"

namespace gradwire::server {

// A worker's name, as the server numbers them; the same in all its lives.
using WorkerNameId = Id<struct WorkerNameTag>;

struct PushId {
  WorkerNameId worker;
  Incarnation incarnation;
  uint64_t sequence = 0;
};

struct PushAnswer {
  // The store's after the push.
  uint64_t version = 0;
  // It was refused and changed nothing; recorded, so that who waits for it doesn't wait on.
  bool refused = false;

  friend bool operator==(PushAnswer, PushAnswer) = default;
};

struct AnsweredPush {
  uint64_t sequence = 0;
  PushAnswer answer;
};

struct PushWindowOptions {
  // Default: 4096. Count. Above any number of pushes that a worker has in flight; 64 KiB of memory.
  size_t max_answers_per_worker = 4096;
  // Default: 65 536. Count of names ever seen. A name costs 0.1 KiB at least, and must be kept: its
  // fence and its answers outlive its connection.
  size_t max_workers = size_t{1} << 16;
};

class PushWindow {
 public:
  explicit PushWindow(PushWindowOptions options = {}) : options_(options) {}

  // Nothing: the push is new and may be applied, then recorded. An answer: it was applied before.
  // finished_below: of this push's sender; one smaller than an earlier one changes nothing.
  absl::StatusOr<std::optional<PushAnswer>> Admit(const PushId& push, uint64_t finished_below);

  // After Admit gave nothing for it, with no other push of this worker admitted in between.
  void Record(const PushId& push, PushAnswer answer);

  // Whether the push was applied or refused, or is finished with. FAILED_PRECONDITION: a newer
  // incarnation has pushed; it never will be.
  absl::StatusOr<bool> Settled(const PushId& push) const;

  // Every worker with its fence and its answers, ascending; for checkpoints and moving shards.
  void ForEach(const std::function<void(WorkerNameId, Incarnation, uint64_t finished_below,
                                        std::span<const AnsweredPush>)>& visit) const;
  size_t worker_count() const { return workers_.size(); }
  size_t answer_count() const { return answer_count_; }

 private:
  struct Worker {
    Incarnation incarnation;
    uint64_t finished_below = 0;
    std::vector<AnsweredPush> answers;  // ascending in sequences
  };

  void Forget(Worker& worker, uint64_t finished_below);

  const PushWindowOptions options_;
  absl::flat_hash_map<WorkerNameId, Worker> workers_;
  size_t answer_count_ = 0;
};

}  // namespace gradwire::server
