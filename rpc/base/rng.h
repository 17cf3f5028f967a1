// Random numbers as an injected seam.
//
// Twins:         Rng::Secure() = the kernel's generator (nonces, tokens, session ids); SeededRng =
//                deterministic (simulation, tests, initial values): xoshiro256**, seeded through
//                splitmix64 (Blackman, Vigna: "Scrambled linear pseudorandom number generators",
//                2018).
// Thread-safety: Secure() is thread-safe; a SeededRng belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gradwire {

class Rng {
 public:
  virtual ~Rng() = default;
  virtual uint64_t Next() = 0;

  // Uniform in [0, bound); 0 for bound 0. Lemire's multiplication with rejection: no bias.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1), 53 bits.
  double Uniform();
  // True with probability p.
  bool Chance(double p) { return Uniform() < p; }
  void Fill(std::span<std::byte> out);

  static Rng& Secure();
};

class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed);
  uint64_t Next() override;

 private:
  uint64_t state_[4];
};

}  // namespace gradwire
