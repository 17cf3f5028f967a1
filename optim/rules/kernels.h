// The update kernels, and which one an option set takes.
//
// Internal to optim/rules and its tests and benches.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>

#include "optim/rules/rule.h"

namespace gradwire::optim {

// weights, gradient [n]; slots [SlotCount(n)].
using ApplyFn = void (*)(const RuleOptions& options, double lr, float* weights, float* slots,
                         const float* gradient, size_t n);

// Vector width; all give the same bits.
enum class Isa { kBaseline, kAvx2 };
// The widest that this processor has.
Isa BestIsa();

// `options` are valid. A kernel takes the options that it was found for, with whatever values.
ApplyFn FindKernel(const RuleOptions& options, Isa isa);

}  // namespace gradwire::optim
