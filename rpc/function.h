// A remote function's name and type, declared once in a header that caller and callee share.
//
//   inline constexpr rpc::Function<int64_t(int64_t, int64_t)> kAdd{"demo.add"};
//   kAdd(1, 2)   a typed bound call: what Peer::Call, Async and Remote take
//
// Arguments convert as in any call of a function; wrong types don't compile.
// Types that travel: rpc/tensor/codec.h; include rpc/tensor/values.h for containers and structs,
//                    rpc/tensor/torch.h for tensors.
// Errors:            INVALID_ARGUMENT: an argument that can't be encoded, with its number.
// Thread-safety:     values.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rpc/base/future.h"
#include "rpc/base/status.h"
#include "rpc/tensor/codec.h"
#include "rpc/tensor/fence.h"
#include "rpc/tensor/payload_reader.h"
#include "rpc/tensor/payload_writer.h"

namespace gradwire::rpc {

// 4096 bytes: what the session's wire admits. Longer ones are cut; see values.md, Declarations.
inline constexpr size_t kMaxDeclarationBytes = 4096;

namespace function_internal {

template <class R>
const std::string& ResultName() {
  if constexpr (std::is_void_v<R>) {
    static const std::string name = "void";
    return name;
  } else {
    return TypeName<R>();
  }
}

// `text` if it fits into the wire's kMaxDeclarationBytes, else its start and a hash of all of it.
std::string FitDeclaration(std::string text);

// "R(A, B)".
template <class R, class... Args>
const std::string& Declaration() {
  static const std::string declaration = [] {
    std::string text = ResultName<R>() + "(";
    [[maybe_unused]] const char* separator = "";
    ((absl::StrAppend(&text, separator, TypeName<Args>()), separator = ", "), ...);
    return FitDeclaration(text + ")");
  }();
  return declaration;
}

}  // namespace function_internal

template <class Signature>
class BoundCall;

// A function with its arguments.
template <class R, class... Args>
class BoundCall<R(Args...)> {
 public:
  BoundCall(const char* name, std::tuple<Args...> arguments)
      : name_(name), arguments_(std::move(arguments)) {}

  absl::string_view name() const { return name_; }
  const std::string& declaration() const { return function_internal::Declaration<R, Args...>(); }
  // Writes the arguments; INVALID_ARGUMENT names the function and the argument. Lets no exception
  // out.
  absl::Status Encode(PayloadWriter& out) const {
    return Fence(name_, [&] { return EncodeFrom(out, std::index_sequence_for<Args...>()); });
  }

 private:
  template <size_t... I>
  absl::Status EncodeFrom(PayloadWriter& out, std::index_sequence<I...>) const {
    absl::Status status;
    [[maybe_unused]] const auto one = [&](size_t number, const auto& argument) {
      out.BeginArgument(static_cast<uint32_t>(number));
      status = Codec<std::decay_t<decltype(argument)>>::Encode(out, argument);
      if (!status.ok()) {
        status = WithContext(status, absl::StrCat("argument ", number, " of ", name_));
      }
      return status.ok();
    };
    (void)(one(I + 1, std::get<I>(arguments_)) && ...);
    return status;
  }

  const char* name_;
  std::tuple<Args...> arguments_;
};

template <class Signature>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
 public:
  using Result = R;
  using Arguments = std::tuple<std::decay_t<Args>...>;
  using Call = BoundCall<R(std::decay_t<Args>...)>;

  // `name`: a literal of 1 to 128 characters of [A-Za-z0-9_.-/~:]; checked when the program is
  // compiled.
  consteval explicit(false) Function(const char* name) : name_(name) {
    size_t size = 0;
    for (const char* c = name; *c != '\0'; ++c, ++size) {
      const bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9') || *c == '_' || *c == '.' || *c == '-' ||
                      *c == '/' || *c == '~' || *c == ':';
      if (!ok) throw "gradwire: a function name is made of [A-Za-z0-9_.-/~:]";
    }
    if (size == 0 || size > 128) throw "gradwire: a function name has 1 to 128 characters";
  }

  // Binds arguments, with the conversions of a function call.
  Call operator()(std::decay_t<Args>... args) const {
    return Call(name_, std::tuple<std::decay_t<Args>...>(std::move(args)...));
  }

  constexpr const char* name() const { return name_; }
  const std::string& declaration() const {
    return function_internal::Declaration<R, std::decay_t<Args>...>();
  }

 private:
  const char* name_;
};

// Reads the result of `function`. INTERNAL naming it: bytes that are no R, which is the callee's
// mistake. Lets no exception out.
template <class R>
Outcome<R> DecodeResult(absl::string_view function, ReceivedPayload payload) {
  absl::Status wrong;
  Outcome<R> result = Fence(function, [&]() -> Outcome<R> {
    PayloadReader in(payload);
    if constexpr (std::is_void_v<R>) {
      return wrong = in.Finish();
    } else {
      absl::StatusOr<R> value = Codec<R>::Decode(in);
      wrong = value.ok() ? in.Finish() : value.status();
      if (!wrong.ok()) return wrong;
      return value;
    }
  });
  if (wrong.ok()) [[likely]] {
    return result;
  }
  return absl::InternalError(absl::StrCat("the result of ", function, ": ", wrong.message()));
}

}  // namespace gradwire::rpc
