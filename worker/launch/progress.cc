#include "worker/launch/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "rpc/base/log.h"
#include "rpc/base/option_values.h"
#include "rpc/base/status.h"
#include "rpc/base/utf8.h"

namespace gradwire::launch {
namespace {

constexpr absl::string_view kVersion = "1";
// A worker that trains for longer than this has other problems; keeps sums of many workers finite.
constexpr double kMaxSeconds = 1e9;

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(absl::CEscape(text), {{" ", "\\040"}});
}

// Shortest text that reads back as the same number; "nan", "inf", "-inf" where it is not one.
std::string NumberText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return FormatNumber(value);
}

double NotNegative(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0.0; }

// Microseconds: more says nothing about a step, and the text stays short.
std::string SecondsText(absl::Duration duration) {
  duration = std::clamp(duration, absl::ZeroDuration(), absl::Seconds(kMaxSeconds));
  const int64_t micros = absl::ToInt64Microseconds(duration);
  std::string text =
      absl::StrCat(micros / 1'000'000, ".", absl::Dec(micros % 1'000'000, absl::kZeroPad6));
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

bool IsQualityName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxQualityNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
         });
}

// ---- reading ----

bool ReadInteger(absl::string_view text, int64_t max, int64_t& value) {
  const std::optional<int64_t> parsed = ParseInteger(text);
  if (!parsed || *parsed < 0 || *parsed > max) return false;
  value = *parsed;
  return true;
}

bool ReadAnyNumber(absl::string_view text, std::optional<double>& value) {
  if (text == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "inf" || text == "-inf") {
    value = text == "inf" ? std::numeric_limits<double>::infinity()
                          : -std::numeric_limits<double>::infinity();
  } else {
    value = ParseNumber(text);
  }
  return value.has_value();
}

bool ReadPositive(absl::string_view text, double max, double& value) {
  const std::optional<double> parsed = ParseNumber(text);
  if (!parsed || *parsed < 0 || *parsed > max) return false;
  value = *parsed;
  return true;
}

bool ReadSeconds(absl::string_view text, absl::Duration& value) {
  double seconds = 0;
  if (!ReadPositive(text, kMaxSeconds, seconds)) return false;
  value = absl::Microseconds(std::llround(seconds * 1e6));
  return true;
}

// Every key of a line; its place is its bit in what was seen.
constexpr std::array<absl::string_view, 18> kKeys = {
    "rank", "epoch",     "epochs", "rows",         "row_count", "rows_per_second",
    "loss", "staleness", "data",   "pull",         "compute",   "push",
    "wait", "done",      "error",  "quality_name", "quality",   "progress"};

struct Reader {
  Progress progress;
  std::optional<std::string> quality_name;
  std::optional<double> quality;

  // Whether `text` is a value of `key`, which is one of kKeys.
  bool Set(absl::string_view key, absl::string_view text) {
    constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
    Progress& p = progress;
    if (key == "rank") {
      int64_t rank = 0;
      if (!ReadInteger(text, kMaxProgressRank, rank)) return false;
      p.rank = static_cast<int>(rank);
      return true;
    }
    if (key == "epoch") return ReadInteger(text, kAny, p.epoch);
    if (key == "epochs") return ReadInteger(text, kAny, p.epoch_count);
    if (key == "rows") return ReadInteger(text, kAny, p.rows);
    if (key == "row_count") return ReadInteger(text, kAny, p.row_count);
    if (key == "rows_per_second") {
      return ReadPositive(text, std::numeric_limits<double>::max(), p.rows_per_second);
    }
    if (key == "loss") return ReadAnyNumber(text, p.loss);
    if (key == "staleness") {
      return ReadPositive(text, std::numeric_limits<double>::max(), p.staleness.emplace());
    }
    if (key == "data") return ReadSeconds(text, p.split.data);
    if (key == "pull") return ReadSeconds(text, p.split.pull);
    if (key == "compute") return ReadSeconds(text, p.split.compute);
    if (key == "push") return ReadSeconds(text, p.split.push);
    if (key == "wait") return ReadSeconds(text, p.split.wait);
    if (key == "done") {
      p.done = text == "1";
      return p.done;
    }
    if (key == "error") {
      return absl::CUnescape(text, &p.error.emplace()) && p.error->size() <= kMaxProgressErrorBytes;
    }
    if (key == "quality_name") {
      quality_name = std::string(text);
      return IsQualityName(text);
    }
    if (key == "quality") return ReadAnyNumber(text, quality);
    return text == kVersion;  // "progress"
  }
};

absl::Status Refused(absl::string_view key, absl::string_view text) {
  if (key == "progress") {
    return absl::InvalidArgumentError(
        absl::StrCat("progress line of version ", EscapedString(text), "; only version ", kVersion,
                     " is understood: build the worker and gradwire from the same source"));
  }
  return absl::InvalidArgumentError(absl::StrCat("progress line: ", key, "=", EscapedString(text),
                                                 " is no value of it (worker/launch/progress.h)"));
}

}  // namespace

std::string EncodeProgress(const Progress& progress) {
  const auto count = [](int64_t value) { return std::max<int64_t>(value, 0); };
  std::string line =
      absl::StrCat("progress=", kVersion, " rank=", std::clamp(progress.rank, 0, kMaxProgressRank),
                   " epoch=", count(progress.epoch), " epochs=", count(progress.epoch_count),
                   " rows=", count(progress.rows), " row_count=", count(progress.row_count),
                   " rows_per_second=", NumberText(NotNegative(progress.rows_per_second)));
  if (progress.loss) absl::StrAppend(&line, " loss=", NumberText(*progress.loss));
  if (progress.staleness) {
    absl::StrAppend(&line, " staleness=", NumberText(NotNegative(*progress.staleness)));
  }
  const StepSplit& split = progress.split;
  absl::StrAppend(&line, " data=", SecondsText(split.data), " pull=", SecondsText(split.pull),
                  " compute=", SecondsText(split.compute));
  absl::StrAppend(&line, " push=", SecondsText(split.push), " wait=", SecondsText(split.wait));
  if (progress.done) absl::StrAppend(&line, " done=1");
  if (progress.quality && IsQualityName(progress.quality->name)) {
    absl::StrAppend(&line, " quality_name=", progress.quality->name,
                    " quality=", NumberText(progress.quality->value));
  }
  if (progress.error) {
    // Cut between characters where it is text, anywhere where it isn't.
    const absl::string_view head =
        absl::string_view(*progress.error).substr(0, kMaxProgressErrorBytes);
    absl::StrAppend(
        &line, " error=",
        Escape(IsValidUtf8(*progress.error) ? CutUtf8(*progress.error, kMaxProgressErrorBytes)
                                            : head));
  }
  return line;
}

absl::StatusOr<Progress> ParseProgress(absl::string_view line) {
  if (line.size() >= kMaxProgressLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat("progress line of ", line.size(),
                                                   " bytes; at most ", kMaxProgressLineBytes - 1,
                                                   " are allowed"));
  }
  Reader reader;
  uint32_t seen = 0;
  for (const absl::string_view field : absl::StrSplit(line, ' ')) {
    const size_t equals = field.find('=');
    const absl::string_view key = field.substr(0, equals);
    const auto* const known = std::find(kKeys.begin(), kKeys.end(), key);
    if (equals == absl::string_view::npos || known == kKeys.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("progress line: ", EscapedString(field), " is no field of it"));
    }
    if (seen == 0 && key != "progress") {
      return absl::InvalidArgumentError("progress line: it must begin with progress=1");
    }
    const uint32_t bit = uint32_t{1} << (known - kKeys.begin());
    if ((seen & bit) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("progress line: ", key, " is there twice"));
    }
    seen |= bit;
    const absl::string_view text = field.substr(equals + 1);
    if (!reader.Set(key, text)) return Refused(key, text);
  }
  if ((seen & 1) == 0) return absl::InvalidArgumentError("progress line: rank is missing");
  if (reader.quality_name.has_value() != reader.quality.has_value()) {
    return absl::InvalidArgumentError(
        "progress line: quality_name and quality belong together; one is missing");
  }
  if (reader.quality) reader.progress.quality = Quality{*reader.quality_name, *reader.quality};
  return std::move(reader.progress);
}

}  // namespace gradwire::launch
