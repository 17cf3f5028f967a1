// Initializer: the first value of a row, which depends on (seed, table, id, column) alone, so that
// it is the same on whichever server, in whatever order, and however often it is asked for.
//
// Formulas:      at the functions in init.cc. Random bits: one mix of the four numbers a column
//                (SplitMix64's finalizer; Steele, Lea, Flood 2014), no state.
// Errors:        INVALID_ARGUMENT naming the initializer and what is wrong.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace gradwire::optim {

enum class InitKind : uint8_t { kConstant, kUniform, kNormal, kTruncatedNormal, kXavier };

// As it travels. `a`, `b`: the value; low, high; mean, standard deviation (truncated: within two
// of them); Xavier (Glorot and Bengio 2010, eq. 16, uniform): fan_in, fan_out.
struct InitOptions {
  InitKind kind = InitKind::kConstant;
  double a = 0;
  double b = 0;
};

inline InitOptions Constant(double value) { return {InitKind::kConstant, value, 0}; }
inline InitOptions Uniform(double low, double high) { return {InitKind::kUniform, low, high}; }
inline InitOptions Normal(double mean, double stddev) { return {InitKind::kNormal, mean, stddev}; }
inline InitOptions TruncatedNormal(double mean, double stddev) {
  return {InitKind::kTruncatedNormal, mean, stddev};
}
inline InitOptions Xavier(double fan_in, double fan_out) {
  return {InitKind::kXavier, fan_in, fan_out};
}

class Initializer {
 public:
  // Default: zeros.
  Initializer() = default;
  static absl::StatusOr<Initializer> Create(const InitOptions& options, uint64_t seed,
                                            uint64_t table);

  // Writes the row of `id`: row [dim].
  void Fill(int64_t id, std::span<float> row) const;

  // "normal(0, 0.1)".
  std::string ToString() const;
  const InitOptions& options() const { return options_; }

 private:
  InitOptions options_;
  uint64_t key_ = 0;  // of seed and table
};

}  // namespace gradwire::optim
