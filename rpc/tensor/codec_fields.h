// GW_FIELDS: makes a struct travel, field by field, in the order given.
//
//   struct Sample { at::Tensor x; int64_t label; GW_FIELDS(x, label); };
//
// is spelled "Sample{x:Tensor,label:int64}" in declarations.
//
// Name, field names and field types enter the declaration: two ends that differ in any of them
// get an error that shows both. The struct needs a default constructor. A struct derived from one
// with GW_FIELDS needs its own.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "rpc/tensor/codec_containers.h"

#define GW_FIELDS(...)                                                 \
  auto GwFields() { return ::std::tie(__VA_ARGS__); }                  \
  auto GwConstFields() const { return ::std::tie(__VA_ARGS__); }       \
  static constexpr const char* GwFieldNames() { return #__VA_ARGS__; } \
  using GwFieldsAreNamed [[maybe_unused]] = void

namespace gradwire::rpc {
namespace codec_internal {

template <class Tuple>
struct WithoutReferences;
template <class... Ts>
struct WithoutReferences<std::tuple<Ts...>> {
  using type = Together<std::remove_reference_t<Ts>...>;
};

template <class Class, class R>
Class ClassOf(R (Class::*)() const);

// Where a field is, for messages: the part of `names` ("a, b") at `index`.
std::string FieldName(const char* names, size_t index);

}  // namespace codec_internal

template <class T>
  requires requires { typename T::GwFieldsAreNamed; }
struct Codec<T> {
  static_assert(std::is_default_constructible_v<T>,
                "gradwire: a struct with GW_FIELDS needs a default constructor");
  static_assert(std::is_same_v<decltype(codec_internal::ClassOf(&T::GwConstFields)), T>,
                "gradwire: a struct derived from one with GW_FIELDS needs its own GW_FIELDS");
  using Fields =
      typename codec_internal::WithoutReferences<decltype(std::declval<T&>().GwFields())>::type;

  static constexpr int kDepth = Fields::kDepth;
  static constexpr size_t kMinBytes = Fields::kMinBytes;

  static std::string TypeName() {
    std::string text(kTypeName<T>);
    text += '{';
    size_t index = 0;
    T value{};
    (void)Fields::ForEach(value.GwFields(), [&]<class Field>(Field&) {
      absl::StrAppend(&text, index == 0 ? "" : ",",
                      codec_internal::FieldName(T::GwFieldNames(), index), ":",
                      rpc::TypeName<Field>());
      ++index;
      return absl::OkStatus();
    });
    text += '}';
    return text;
  }

  static absl::Status Encode(PayloadWriter& out, const T& value) {
    size_t index = 0;
    return Fields::ForEach(value.GwConstFields(), [&]<class Field>(const Field& field) {
      absl::Status status = Codec<Field>::Encode(out, field);
      if (!status.ok()) return At(status, index);
      ++index;
      return status;
    });
  }

  static absl::StatusOr<T> Decode(PayloadReader& in) {
    T value{};
    size_t index = 0;
    GW_RETURN_IF_ERROR(Fields::ForEach(value.GwFields(), [&](auto& field) {
      absl::Status status = codec_internal::DecodeInto(in, field);
      if (!status.ok()) return At(status, index);
      ++index;
      return status;
    }));
    return value;
  }

 private:
  static absl::Status At(const absl::Status& status, size_t index) {
    return WithContext(status,
                       absl::StrCat("field ", codec_internal::FieldName(T::GwFieldNames(), index)));
  }
};

}  // namespace gradwire::rpc
