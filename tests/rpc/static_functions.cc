#include "tests/rpc/static_functions.h"

#include "rpc/registry.h"

namespace gradwire::rpc::testing {
namespace {
int64_t Twice(int64_t n) { return 2 * n; }
}  // namespace

GW_FUNCTION(kTwice, Twice);
GW_FUNCTION(kHalf, [](int64_t n) { return n / 2; }, {.run = kInline});

}  // namespace gradwire::rpc::testing

GW_FUNCTION_LIBRARY(static_functions_test);
