#include "server/store/push_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gradwire::server {
namespace {

constexpr auto kBySequence = [](const AnsweredPush& answered, uint64_t sequence) {
  return answered.sequence < sequence;
};

}  // namespace

void PushWindow::Forget(Worker& worker, uint64_t finished_below) {
  if (finished_below <= worker.finished_below) return;
  worker.finished_below = finished_below;
  const auto end =
      std::lower_bound(worker.answers.begin(), worker.answers.end(), finished_below, kBySequence);
  answer_count_ -= static_cast<size_t>(end - worker.answers.begin());
  worker.answers.erase(worker.answers.begin(), end);
}

absl::StatusOr<std::optional<PushAnswer>> PushWindow::Admit(const PushId& push,
                                                            uint64_t finished_below) {
  auto found = workers_.find(push.worker);
  if (found == workers_.end()) {
    if (workers_.size() >= options_.max_workers) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a push of one more worker name: ", workers_.size(),
                       " have pushed to this table (max_workers); use names again"));
    }
    found = workers_.try_emplace(push.worker).first;
    found->second.incarnation = push.incarnation;
  }
  Worker& worker = found->second;
  if (push.incarnation < worker.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        "push ", push.sequence, " is of incarnation ", push.incarnation.value,
        " of a worker whose incarnation ", worker.incarnation.value, " has pushed since"));
  }
  if (push.incarnation > worker.incarnation) {
    answer_count_ -= worker.answers.size();
    worker = Worker{push.incarnation, 0, {}};
  }
  Forget(worker, finished_below);
  if (push.sequence < worker.finished_below) {
    return absl::FailedPreconditionError(
        absl::StrCat("push ", push.sequence, " arrives after its worker has finished all below ",
                     worker.finished_below));
  }
  const auto at =
      std::lower_bound(worker.answers.begin(), worker.answers.end(), push.sequence, kBySequence);
  if (at != worker.answers.end() && at->sequence == push.sequence) return at->answer;
  if (worker.answers.size() >= options_.max_answers_per_worker) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "push ", push.sequence, ": ", worker.answers.size(), " answers are kept for its worker ",
        "(max_answers_per_worker), which has finished none from ", worker.finished_below,
        " on; wait for answers before pushing more"));
  }
  return std::nullopt;
}

void PushWindow::Record(const PushId& push, PushAnswer answer) {
  const auto found = workers_.find(push.worker);
  if (found == workers_.end() || found->second.incarnation != push.incarnation) return;
  std::vector<AnsweredPush>& answers = found->second.answers;
  const auto at = std::lower_bound(answers.begin(), answers.end(), push.sequence, kBySequence);
  answers.insert(at, {push.sequence, answer});
  ++answer_count_;
}

absl::StatusOr<bool> PushWindow::Settled(const PushId& push) const {
  const auto found = workers_.find(push.worker);
  if (found == workers_.end() || found->second.incarnation < push.incarnation) return false;
  const Worker& worker = found->second;
  if (worker.incarnation > push.incarnation) {
    return absl::FailedPreconditionError(absl::StrCat(
        "push ", push.sequence, " is of incarnation ", push.incarnation.value,
        " of a worker whose incarnation ", worker.incarnation.value, " has pushed since"));
  }
  if (push.sequence < worker.finished_below) return true;
  const auto at =
      std::lower_bound(worker.answers.begin(), worker.answers.end(), push.sequence, kBySequence);
  return at != worker.answers.end() && at->sequence == push.sequence;
}

void PushWindow::ForEach(
    const std::function<void(WorkerNameId, Incarnation, uint64_t finished_below,
                             std::span<const AnsweredPush>)>& visit) const {
  for (const auto& [name, worker] : workers_) {
    visit(name, worker.incarnation, worker.finished_below, worker.answers);
  }
}

}  // namespace gradwire::server
