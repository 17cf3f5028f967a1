#include "worker/launch/summary.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gradwire::launch {
namespace {

std::vector<std::pair<const char*, double>> Percent(const StepSplit& split) {
  const absl::Duration total = split.total();
  if (total <= absl::ZeroDuration()) return {};
  const auto of = [&](absl::Duration part) { return 100 * absl::FDivDuration(part, total); };
  return {{"data", of(split.data)},
          {"pull", of(split.pull)},
          {"compute", of(split.compute)},
          {"push", of(split.push)},
          {"wait", of(split.wait)}};
}

std::string Count(int count, absl::string_view what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

double SamplesPerSecond(const JobProgress& progress) {
  const double seconds = absl::ToDoubleSeconds(progress.training_time());
  return seconds > 0 ? static_cast<double>(progress.rows()) / seconds : 0;
}

std::string SummaryText(const Summary& s) {
  const JobProgress& progress = *s.progress;
  std::string text = absl::StrCat(
      "job        ", s.exit_status == 0 ? "done" : absl::StrCat("failed, status ", s.exit_status),
      ": ", Count(s.server_count, "server"), ", ", Count(s.worker_count, "worker"), ", ",
      Count(s.restart_count, "restart"), "\n");
  if (const std::optional<Quality> quality = progress.quality()) {
    absl::StrAppendFormat(&text, "quality    %s %.4g\n", quality->name, quality->value);
  }
  const double rate = SamplesPerSecond(progress);
  if (rate > 0) {
    absl::StrAppend(&text, "samples/s  ", RateText(rate), " (", progress.rows(), " rows in ",
                    TimeText(progress.training_time()), ")\n");
  }
  absl::StrAppend(&text, "time       ", TimeText(s.time));
  if (s.time_to_first_step) {
    absl::StrAppend(&text, ", ", TimeText(*s.time_to_first_step), " to the first step");
  }
  text += '\n';
  const auto percent = Percent(progress.split());
  if (!percent.empty()) text += "step      ";
  for (const auto& [name, value] : percent) {
    absl::StrAppendFormat(&text, " %s %.0f%%", name, value);
  }
  if (!percent.empty()) text += '\n';
  return text;
}

std::string SummaryLines(const Summary& s) {
  const JobProgress& progress = *s.progress;
  std::string text;
  const auto add = [&](absl::string_view key, const auto& value) {
    absl::StrAppend(&text, key, " = ", value, "\n");
  };
  add("status", s.exit_status);
  add("servers", s.server_count);
  add("workers", s.worker_count);
  add("restarts", s.restart_count);
  add("seconds", absl::ToDoubleSeconds(s.time));
  if (s.time_to_first_step) {
    add("first_step_seconds", absl::ToDoubleSeconds(*s.time_to_first_step));
  }
  if (const double rate = SamplesPerSecond(progress); rate > 0) {
    add("training_seconds", absl::ToDoubleSeconds(progress.training_time()));
    add("rows", progress.rows());
    add("samples_per_second", rate);
  }
  if (const std::optional<Quality> quality = progress.quality()) {
    add("quality_name", quality->name);
    add("quality", quality->value);
  }
  if (const std::optional<double> loss = progress.loss()) add("loss", *loss);
  if (const std::optional<double> staleness = progress.staleness()) add("staleness", *staleness);
  for (const auto& [name, value] : Percent(progress.split())) {
    add(absl::StrCat(name, "_percent"), absl::StrFormat("%.2f", value));
  }
  if (!s.error.empty()) add("error", absl::CEscape(s.error));
  return text;
}

}  // namespace gradwire::launch
