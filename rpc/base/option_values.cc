#include "rpc/base/option_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

struct Unit {
  absl::string_view name;
  uint64_t bytes;
};
// Longest names first: "KiB" ends in "B", too.
constexpr Unit kUnits[] = {
    {"KiB", uint64_t{1} << 10},
    {"MiB", uint64_t{1} << 20},
    {"GiB", uint64_t{1} << 30},
    {"TiB", uint64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"B", 1},
};

bool IsDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

}  // namespace

std::optional<bool> ParseBool(absl::string_view text) {
  const std::string word = absl::AsciiStrToLower(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

std::optional<int64_t> ParseInteger(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

std::optional<double> ParseNumber(absl::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string FormatNumber(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

std::optional<absl::Duration> ParseOptionDuration(absl::string_view text) {
  absl::Duration value;
  if (!absl::ParseDuration(text, &value)) return std::nullopt;
  return value;
}

std::string FormatOptionDuration(absl::Duration value) { return absl::FormatDuration(value); }

std::optional<ByteCount> ParseByteCount(absl::string_view text) {
  uint64_t unit = 1;
  for (const Unit& candidate : kUnits) {
    if (!absl::EndsWithIgnoreCase(text, candidate.name)) continue;
    unit = candidate.bytes;
    text.remove_suffix(candidate.name.size());
    break;
  }
  text = absl::StripTrailingAsciiWhitespace(text);
  const size_t dot = text.find('.');
  const absl::string_view whole_text = text.substr(0, dot);
  uint64_t whole = 0;
  if (!IsDigits(whole_text) || !absl::SimpleAtoi(whole_text, &whole)) return std::nullopt;
  if (whole > std::numeric_limits<uint64_t>::max() / unit) return std::nullopt;
  uint64_t bytes = whole * unit;
  if (dot != absl::string_view::npos) {
    const absl::string_view fraction_text = text.substr(dot + 1);
    double fraction = 0;
    if (!IsDigits(fraction_text) ||
        !absl::SimpleAtod(absl::StrCat("0.", fraction_text), &fraction)) {
      return std::nullopt;
    }
    const auto more = static_cast<uint64_t>(fraction * static_cast<double>(unit));
    if (more > std::numeric_limits<uint64_t>::max() - bytes) return std::nullopt;
    bytes += more;
  }
  return ByteCount{bytes};
}

std::string FormatByteCount(ByteCount value) {
  for (const absl::string_view name : {"TiB", "GiB", "MiB", "KiB"}) {
    for (const Unit& unit : kUnits) {
      if (unit.name == name && value.value >= unit.bytes && value.value % unit.bytes == 0) {
        return absl::StrCat(value.value / unit.bytes, name);
      }
    }
  }
  return absl::StrCat(value.value);
}

// Damerau-Levenshtein, restricted: no pair is swapped twice.
int EditDistance(absl::string_view a, absl::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * columns);
  const auto at = [&](size_t i, size_t j) -> int& { return cost[i * columns + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

}  // namespace gradwire
