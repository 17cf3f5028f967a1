// Functions that a static library binds by GW_FUNCTION.
#pragma once

#include <cstdint>

#include "rpc/function.h"

namespace gradwire::rpc::testing {

inline constexpr Function<int64_t(int64_t)> kTwice{"static.twice"};
inline constexpr Function<int64_t(int64_t)> kHalf{"static.half"};

}  // namespace gradwire::rpc::testing
