// Codec<T>: how a C++ type travels. One specialization a type; this file has the plain ones.
//
// Wire:          proto/gradwire/v1/values.md.
// A codec has    static constexpr int kDepth            types inside each other, itself included
//                static constexpr size_t kMinBytes      fewest head bytes of a value
//                static std::string TypeName()          spelling in declarations
//                static absl::Status Encode(PayloadWriter&, const T&)
//                static absl::StatusOr<T> Decode(PayloadReader&)
// Errors:        INVALID_ARGUMENT: a value above a limit, bytes that are no value.
// Exceptions:    std::bad_alloc alone; the typed face fences it.
// Thread-safety: stateless.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rpc/base/status.h"
#include "rpc/tensor/byte_string.h"
#include "rpc/tensor/payload_reader.h"
#include "rpc/tensor/payload_writer.h"
#include "rpc/tensor/tensor_view.h"
#include "rpc/tensor/type_name.h"

namespace gradwire::rpc {

namespace codec_internal {

template <class T>
inline constexpr bool kNever = false;

template <class T, class... Others>
inline constexpr bool kIsOneOf = (std::same_as<T, Others> || ...);

// The integers that travel. char and its wide kin are left out: their sign or width differs between
// machines.
template <class T>
concept WireInteger = kIsOneOf<T, signed char, short, int, long, long long, unsigned char,
                               unsigned short, unsigned int, unsigned long, unsigned long long>;

// Only these enums may hold every value of their underlying type.
template <class T>
concept WireEnum = std::is_enum_v<T> && requires { T{std::underlying_type_t<T>{}}; };

absl::Status EncodeText(PayloadWriter& out, absl::string_view what, absl::string_view text);
absl::StatusOr<std::string> DecodeText(PayloadReader& in, absl::string_view what);
absl::Status EncodeCount(PayloadWriter& out, size_t count);
// A count that the remaining bytes can bear.
absl::StatusOr<uint32_t> DecodeCount(PayloadReader& in, size_t min_bytes_each);

}  // namespace codec_internal

template <class T>
struct Codec {
  static_assert(
      codec_internal::kNever<T>,
      "gradwire: this type can't travel. Arguments and results may be: bool, integers of 8 to 64 "
      "bits (not char), float, double, std::string, rpc::ByteString, absl::Duration, enums with a "
      "fixed underlying type, at::Tensor (include rpc/tensor/torch.h), rpc::TensorView, "
      "std::optional, pair, tuple, vector, map and unordered_map of these (include "
      "rpc/tensor/values.h), and structs that name their fields with GW_FIELDS(a, b)");
  // Declared so that the message above stays the only one.
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 1;
  static std::string TypeName();
  static absl::Status Encode(PayloadWriter&, const T&);
  static absl::StatusOr<T> Decode(PayloadReader&);
};

// The spelling of T in declarations, "map<string,Tensor>"; made once.
template <class T>
const std::string& TypeName() {
  static_assert(Codec<T>::kDepth <= kMaxValueDepth,
                "gradwire: this type is nested deeper than kMaxValueDepth (32)");
  static const std::string name = Codec<T>::TypeName();
  return name;
}

namespace codec_internal {

template <class T>
absl::Status DecodeInto(PayloadReader& in, T& out) {
  absl::StatusOr<T> value = Codec<T>::Decode(in);
  if (!value.ok()) [[unlikely]] {
    return std::move(value).status();
  }
  out = *std::move(value);
  return absl::OkStatus();
}

}  // namespace codec_internal

template <>
struct Codec<bool> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 1;
  static std::string TypeName() { return "bool"; }
  static absl::Status Encode(PayloadWriter& out, bool value) {
    out.head().Write<uint8_t>(value ? 1 : 0);
    return absl::OkStatus();
  }
  static absl::StatusOr<bool> Decode(PayloadReader& in) {
    uint8_t value = 0;
    if (!in.head().Read(value)) return in.head().EndsEarly("a bool");
    if (value > 1) return absl::InvalidArgumentError(absl::StrCat("a bool is ", value));
    return value == 1;
  }
};

template <class T>
  requires(codec_internal::WireInteger<T> || codec_internal::kIsOneOf<T, float, double>)
struct Codec<T> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = sizeof(T);
  static std::string TypeName() {
    constexpr absl::string_view kind = std::is_floating_point_v<T> ? "float"
                                       : std::is_signed_v<T>       ? "int"
                                                                   : "uint";
    return absl::StrCat(kind, 8 * sizeof(T));
  }
  static absl::Status Encode(PayloadWriter& out, T value) {
    out.head().Write(value);
    return absl::OkStatus();
  }
  static absl::StatusOr<T> Decode(PayloadReader& in) {
    T value = 0;
    if (!in.head().Read(value)) return in.head().EndsEarly("a number");
    return value;
  }
};

template <codec_internal::WireEnum T>
struct Codec<T> {
  using Number = std::underlying_type_t<T>;
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = Codec<Number>::kMinBytes;
  static std::string TypeName() {
    return absl::StrCat(kTypeName<T>, ":", Codec<Number>::TypeName());
  }
  static absl::Status Encode(PayloadWriter& out, T value) {
    return Codec<Number>::Encode(out, static_cast<Number>(value));
  }
  // Any value of the underlying type, as with enums everywhere: a switch needs its default.
  static absl::StatusOr<T> Decode(PayloadReader& in) {
    GW_ASSIGN_OR_RETURN(const Number number, Codec<Number>::Decode(in));
    return static_cast<T>(number);
  }
};

template <>
struct Codec<std::string> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 4;
  static std::string TypeName() { return "string"; }
  static absl::Status Encode(PayloadWriter& out, const std::string& value) {
    return codec_internal::EncodeText(out, "a string", value);
  }
  static absl::StatusOr<std::string> Decode(PayloadReader& in) {
    return codec_internal::DecodeText(in, "a string");
  }
};

template <>
struct Codec<ByteString> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 4;
  static std::string TypeName() { return "bytes"; }
  static absl::Status Encode(PayloadWriter& out, const ByteString& value) {
    return codec_internal::EncodeText(out, "bytes", value.data);
  }
  static absl::StatusOr<ByteString> Decode(PayloadReader& in) {
    GW_ASSIGN_OR_RETURN(std::string data, codec_internal::DecodeText(in, "bytes"));
    return ByteString{std::move(data)};
  }
};

// Nanoseconds, cut towards zero; finite ones beyond 292 years end at the last finite value.
template <>
struct Codec<absl::Duration> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 8;
  static std::string TypeName() { return "duration"; }
  static absl::Status Encode(PayloadWriter& out, absl::Duration value);
  static absl::StatusOr<absl::Duration> Decode(PayloadReader& in);
};

template <>
struct Codec<TensorView> {
  static constexpr int kDepth = 1;
  static constexpr size_t kMinBytes = 3;
  static std::string TypeName() { return "Tensor"; }
  static absl::Status Encode(PayloadWriter& out, const TensorView& value);
  static absl::StatusOr<TensorView> Decode(PayloadReader& in);
};

}  // namespace gradwire::rpc
