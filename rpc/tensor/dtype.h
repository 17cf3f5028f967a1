// The element types that travel, with our own numbers: libtorch's may change between versions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// The numbers are on the wire (proto/gradwire/v1/values.md): add, never change.
enum class DType : uint8_t {
  kUndefined = 0,  // no tensor
  kFloat32 = 1,
  kFloat64 = 2,
  kFloat16 = 3,
  kBFloat16 = 4,
  kInt8 = 5,
  kInt16 = 6,
  kInt32 = 7,
  kInt64 = 8,
  kUInt8 = 9,
  kBool = 10,
  kComplex64 = 11,   // two float32: real, imaginary
  kComplex128 = 12,  // two float64
};

// The list for messages.
inline constexpr absl::string_view kCarriedDTypes =
    "float32, float64, float16, bfloat16, int8, int16, int32, int64, uint8, bool, complex64, "
    "complex128";

inline constexpr size_t kDTypeCount = 13;

namespace dtype_internal {
inline constexpr std::array<uint8_t, kDTypeCount> kItemBytes = {0, 4, 8, 2, 2, 1, 2,
                                                                4, 8, 1, 1, 8, 16};
inline constexpr std::array<absl::string_view, kDTypeCount> kNames = {
    "undefined", "float32", "float64", "float16", "bfloat16",  "int8",      "int16",
    "int32",     "int64",   "uint8",   "bool",    "complex64", "complex128"};
}  // namespace dtype_internal

// Whether `number` from the wire is an element type (undefined is none).
constexpr bool IsCarriedDType(uint8_t number) { return number > 0 && number < kDTypeCount; }

// Bytes of one element; 0 for kUndefined and for numbers that are no DType.
constexpr size_t ItemBytes(DType dtype) {
  const auto number = static_cast<size_t>(dtype);
  return number < kDTypeCount ? dtype_internal::kItemBytes[number] : 0;
}

// "float32"; "undefined" for kUndefined and for numbers that are no DType.
constexpr absl::string_view DTypeName(DType dtype) {
  const auto number = static_cast<size_t>(dtype);
  return dtype_internal::kNames[number < kDTypeCount ? number : 0];
}

}  // namespace gradwire::rpc
