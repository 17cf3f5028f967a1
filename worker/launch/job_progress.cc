#include "worker/launch/job_progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire::launch {
namespace {

// Mean of what the workers that have it say; nothing where none does.
template <class Workers, class Get>
std::optional<double> Mean(const Workers& workers, Get get) {
  double sum = 0;
  int count = 0;
  for (const auto& [rank, worker] : workers) {
    const std::optional<double> value = get(worker.progress);
    if (!value) continue;
    sum += *value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

// Counts of many workers that each may claim anything.
int64_t AddUp(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

}  // namespace

std::string RateText(double per_second) {
  if (per_second >= 1e12) return absl::StrFormat("%.2g", per_second);
  if (per_second >= 1e6) return absl::StrFormat("%.2fM", per_second / 1e6);
  if (per_second >= 100) return absl::StrFormat("%.0f", per_second);
  return absl::StrFormat("%.3g", per_second);
}

std::string TimeText(absl::Duration duration) {
  // A thousand hours and more: nobody waits for those.
  const double seconds = std::clamp(absl::ToDoubleSeconds(duration), 0.0, 3.6e6);
  if (seconds < 0.9995) return absl::StrFormat("%.0fms", seconds * 1e3);
  if (seconds < 59.95) return absl::StrFormat("%.1fs", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
}

void JobProgress::Take(const Progress& progress, absl::Time now) {
  if (progress.rank < 0 || progress.rank >= worker_count_) return;
  last_[progress.rank] = {progress, progress.done};
  if (progress.rows > 0 && !first_step_) first_step_ = now;
}

void JobProgress::OnEnd(int rank) {
  if (const auto found = last_.find(rank); found != last_.end()) found->second.ended = true;
}

int64_t JobProgress::rows() const {
  int64_t sum = 0;
  for (const auto& [rank, worker] : last_) sum = AddUp(sum, worker.progress.rows);
  return sum;
}

double JobProgress::rows_per_second() const {
  double sum = 0;
  for (const auto& [rank, worker] : last_) {
    if (!worker.ended) sum += worker.progress.rows_per_second;
  }
  return sum;
}

std::optional<double> JobProgress::loss() const {
  return Mean(last_, [](const Progress& p) { return p.loss; });
}

std::optional<double> JobProgress::staleness() const {
  return Mean(last_, [](const Progress& p) { return p.staleness; });
}

std::optional<Quality> JobProgress::quality() const {
  for (const auto& [rank, worker] : last_) {
    if (worker.progress.quality) return worker.progress.quality;
  }
  return std::nullopt;
}

StepSplit JobProgress::split() const {
  StepSplit sum;
  for (const auto& [rank, worker] : last_) {
    const StepSplit& split = worker.progress.split;
    sum.data += split.data;
    sum.pull += split.pull;
    sum.compute += split.compute;
    sum.push += split.push;
    sum.wait += split.wait;
  }
  return sum;
}

absl::Duration JobProgress::training_time() const {
  absl::Duration longest;
  for (const auto& [rank, worker] : last_) {
    longest = std::max(longest, worker.progress.split.total());
  }
  return longest;
}

std::optional<std::string> JobProgress::error(int rank) const {
  const auto found = last_.find(rank);
  if (found == last_.end()) return std::nullopt;
  return found->second.progress.error;
}

std::optional<double> JobProgress::fraction() const {
  double rows = 0, planned = 0;
  for (const auto& [rank, worker] : last_) {
    const Progress& p = worker.progress;
    if (p.row_count == 0 && !p.done) return std::nullopt;
    rows += static_cast<double>(p.rows);
    planned += static_cast<double>(p.done ? std::max(p.rows, p.row_count) : p.row_count);
  }
  if (planned == 0) return std::nullopt;
  // Those that have not spoken yet have as much before them as the others.
  planned *= static_cast<double>(worker_count_) / static_cast<double>(last_.size());
  return std::clamp(rows / planned, 0.0, 1.0);
}

std::optional<absl::Duration> JobProgress::time_left() const {
  // All end when the slowest does.
  double longest = -1;
  for (const auto& [rank, worker] : last_) {
    const Progress& p = worker.progress;
    if (worker.ended) continue;
    if (p.row_count == 0 || p.rows_per_second <= 0) return std::nullopt;
    const auto left = static_cast<double>(std::max<int64_t>(p.row_count - p.rows, 0));
    longest = std::max(longest, left / p.rows_per_second);
  }
  if (longest < 0) return std::nullopt;
  return absl::Seconds(std::min(longest, 3.6e6));
}

std::string JobProgress::Facts(absl::string_view separator, size_t width) const {
  std::vector<std::string> facts;
  // Of those that train, or of all when none does any more.
  int64_t epoch = INT64_MAX, epoch_count = 0;
  const bool all_ended =
      std::all_of(last_.begin(), last_.end(), [](const auto& entry) { return entry.second.ended; });
  for (const auto& [rank, worker] : last_) {
    if (worker.ended && !all_ended) continue;
    epoch = std::min(epoch, worker.progress.epoch);
    epoch_count = std::max(epoch_count, worker.progress.epoch_count);
  }
  if (epoch > 0 && epoch != INT64_MAX) {
    facts.push_back(absl::StrCat("epoch ", epoch));
    if (epoch_count > 0) absl::StrAppend(&facts.back(), "/", epoch_count);
  }
  if (!all_ended) facts.push_back(absl::StrCat(RateText(rows_per_second()), " rows/s"));
  if (const auto value = loss()) facts.push_back(absl::StrFormat("loss %.4g", *value));
  if (const auto left = time_left()) facts.push_back("eta " + TimeText(*left));
  if (const auto value = staleness()) facts.push_back(absl::StrFormat("staleness %.2g", *value));
  std::string text;
  for (const std::string& fact : facts) {
    if (text.size() + separator.size() + fact.size() > width) break;
    absl::StrAppend(&text, separator, fact);
  }
  return text;
}

std::string JobProgress::Bar(size_t width) const {
  if (empty()) return "waiting for the workers";
  std::string text;
  const size_t cells = std::clamp<size_t>(width / 4, 4, 30);
  if (const std::optional<double> part = fraction()) {
    const auto full = static_cast<size_t>(*part * static_cast<double>(cells));
    std::string bar(full, '=');
    if (full < cells) bar += '>';
    bar.resize(cells, ' ');
    text = absl::StrFormat("[%s] %3.0f%%", bar, std::floor(*part * 100));
  } else {
    text = absl::StrCat(rows(), " rows");
  }
  return text + Facts("  ", width - std::min(width, text.size()));
}

std::string JobProgress::Words() const {
  if (empty()) return "waiting for the workers";
  std::string text = absl::StrCat(rows(), " rows");
  if (const std::optional<double> part = fraction()) {
    text = absl::StrFormat("%.0f%%, %s", std::floor(*part * 100), text);
  }
  return text + Facts(", ", SIZE_MAX);
}

}  // namespace gradwire::launch
