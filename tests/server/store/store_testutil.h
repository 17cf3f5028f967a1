// Seeds of random tests.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "rpc/base/rng.h"

namespace gradwire::server {

// A new one each time, printed; GW_TEST_SEED=N repeats a run.
inline uint64_t TestSeed() {
  const char* given = std::getenv("GW_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : Rng::Secure().Next() >> 32;
  std::printf("seed: GW_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace gradwire::server
