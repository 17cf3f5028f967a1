#include "rpc/base/rng.h"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "rpc/base/status.h"

namespace gradwire {
namespace {

class SecureRng final : public Rng {
 public:
  uint64_t Next() override {
    uint64_t value = 0;
    size_t have = 0;
    while (have < sizeof(value)) {
      const ssize_t n =
          getrandom(reinterpret_cast<char*>(&value) + have, sizeof(value) - have, /*flags=*/0);
      GW_CHECK(n > 0 || errno == EINTR);
      if (n > 0) have += static_cast<size_t>(n);
    }
    return value;
  }
};

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t Rng::Below(uint64_t bound) {
  if (bound == 0) return 0;
  while (true) {
    const unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    const uint64_t low = static_cast<uint64_t>(product);
    if (low >= bound || low >= (-bound) % bound) return static_cast<uint64_t>(product >> 64);
  }
}

double Rng::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

void Rng::Fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const uint64_t word = Next();
    const size_t n = std::min(out.size(), sizeof(word));
    std::memcpy(out.data(), &word, n);
    out = out.subspan(n);
  }
}

Rng& Rng::Secure() {
  static SecureRng* const rng = new SecureRng;
  return *rng;
}

SeededRng::SeededRng(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

uint64_t SeededRng::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

}  // namespace gradwire
