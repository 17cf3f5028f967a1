// Text that must be UTF-8 wherever it came from.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// `text` with U+FFFD for each byte that belongs to no valid sequence (overlong forms, surrogates
// and code points above U+10FFFF are not valid).
std::string ValidUtf8(absl::string_view text);

// Whether ValidUtf8 would change nothing. Fast for ASCII.
bool IsValidUtf8(absl::string_view text);

// Valid UTF-8 cut to at most `limit_bytes`, between two characters.
absl::string_view CutUtf8(absl::string_view text, size_t limit_bytes);

}  // namespace gradwire
