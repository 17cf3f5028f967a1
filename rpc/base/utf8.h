// Text that must be UTF-8 wherever it came from.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gradwire {

// `text` with U+FFFD for each byte that belongs to no valid sequence (overlong forms, surrogates
// and code points above U+10FFFF are not valid).
std::string ValidUtf8(absl::string_view text);

}  // namespace gradwire
