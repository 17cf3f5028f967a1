// The unqualified name of a class or enum, the same from g++ and clang.
//
// Where the source calls it a::b::Sample, or Outer<int>::Sample<2>, or declares it in a function,
// the name is "Sample". Namespaces and template arguments are left out because compilers spell them
// differently; the fields in a declaration tell types apart that share a name.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace gradwire::rpc {
namespace type_name_internal {

// A class, so that the compilers add nothing but T to the text.
template <class T>
struct Raw {
  static constexpr const char* Text() { return __PRETTY_FUNCTION__; }
};

constexpr bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Cuts "… [with T = a::b::Name<…>]" (g++) or "… [T = a::b::Name<…>]" (clang) down to "Name"; ""
// where there is none.
constexpr absl::string_view Unqualified(absl::string_view text) {
  if (text.empty() || text.back() != ']') return "";
  text.remove_suffix(1);
  if (!text.empty() && text.back() == '>') {
    size_t depth = 0;
    do {
      if (text.back() == '>') ++depth;
      if (text.back() == '<') --depth;
      text.remove_suffix(1);
    } while (depth > 0 && !text.empty());
  }
  size_t begin = text.size();
  while (begin > 0 && IsWordCharacter(text[begin - 1])) --begin;
  return text.substr(begin);
}

template <class T>
constexpr absl::string_view Name() {
  constexpr absl::string_view name = Unqualified(Raw<T>::Text());
  static_assert(!name.empty(), "gradwire: a type without a name can't travel: give it one");
  return name;
}

}  // namespace type_name_internal

// Specialize it where the name on the wire must differ from the one in the source:
//   template <> inline constexpr absl::string_view gradwire::rpc::kTypeName<Colour> = "Color";
template <class T>
inline constexpr absl::string_view kTypeName = type_name_internal::Name<T>();

}  // namespace gradwire::rpc
