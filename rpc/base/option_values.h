// Values of options as text, both ways: what a flag, the environment or a file may say.
//
// Parse functions give nothing for text that is no value of the type; the k…Syntax texts say what
// is. Format functions give text that parses to the same value. Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gradwire {

// A size in bytes, as an option's type.
struct ByteCount {
  uint64_t value = 0;
  friend constexpr auto operator<=>(ByteCount, ByteCount) = default;
};

inline constexpr absl::string_view kBoolSyntax = "true or false (also yes, no, on, off, 1, 0)";
std::optional<bool> ParseBool(absl::string_view text);

inline constexpr absl::string_view kIntegerSyntax = "an integer such as 64";
std::optional<int64_t> ParseInteger(absl::string_view text);

inline constexpr absl::string_view kNumberSyntax = "a number such as 0.5 or 1e-3";
// Finite.
std::optional<double> ParseNumber(absl::string_view text);
std::string FormatNumber(double value);

inline constexpr absl::string_view kDurationSyntax =
    "a duration with a unit such as 250ms, 30s or 1h30m, or inf";
std::optional<absl::Duration> ParseOptionDuration(absl::string_view text);
std::string FormatOptionDuration(absl::Duration value);

inline constexpr absl::string_view kByteCountSyntax =
    "a size such as 65536, 64KiB, 1.5GiB or 10MB (B, KB, MB, GB, TB = powers of 1000; KiB, MiB, "
    "GiB, "
    "TiB = powers of 1024)";
// Fractions are rounded down to a whole byte.
std::optional<ByteCount> ParseByteCount(absl::string_view text);
std::string FormatByteCount(ByteCount value);

// The candidate that `word` is most likely meant to be; empty when none is near.
template <class Candidates>
std::string NearestWord(absl::string_view word, const Candidates& candidates);
// Insertions, deletions, changes and swaps of neighbours that turn one into the other.
int EditDistance(absl::string_view a, absl::string_view b);

template <class Candidates>
std::string NearestWord(absl::string_view word, const Candidates& candidates) {
  constexpr size_t kMaxWordBytes = 64;  // the distance takes a table of both sizes
  std::string nearest;
  if (word.size() > kMaxWordBytes) return nearest;
  int best = static_cast<int>(word.size()) / 3 + 2;  // a third wrong is another word
  for (const auto& candidate : candidates) {
    const absl::string_view text = candidate;
    if (text.size() > kMaxWordBytes) continue;
    if (const int distance = EditDistance(word, text); distance < best) {
      best = distance;
      nearest = std::string(text);
    }
  }
  return nearest;
}

}  // namespace gradwire
