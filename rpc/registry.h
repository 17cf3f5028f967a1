// Registry: which functions an agent serves, and what runs for each.
//
//   rpc::Registry functions;
//   functions.Bind(kAdd, [](int64_t a, int64_t b) { return a + b; })
//            .Bind(kSlow, Slow, {.run = rpc::kExecutor});
//
// A handler takes the function's arguments, by value or const reference, optionally after a
// CallInfo&, and returns the result R, absl::StatusOr<R>, Future<R>, or for void functions void or
// absl::Status. Nobody can be made to run what is not bound here.
//
// Ownership:     arguments belong to the handler, its result to the call: what it returns as its
//                only holder isn't copied (rpc/tensor/payload_writer.h, kTakeOrCopy), and must not
//                be changed through a future that it keeps. A CallInfo& is good until the handler
//                has returned, or the future that it returned is ready.
// Errors:        a bad name, or one bound twice with both places: Validate, and Agent::Start.
//                INVALID_ARGUMENT naming function and argument: bytes that are no argument.
// Exceptions:    one that leaves a handler becomes "function NAME threw: …", with the code that the
//                fence gives it (rpc/tensor/fence.h): INTERNAL mostly.
// Thread-safety: none; fill it, then hand it to an Agent. Handlers run concurrently: they are
//                called as const objects, and must be thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/agent/handler.h"
#include "rpc/base/future.h"
#include "rpc/function.h"
#include "rpc/tensor/fence.h"

namespace gradwire::rpc {

struct BindOptions {
  // Default: kExecutor. kInline: short functions, on the polling thread; must not block.
  Run run = Run::kExecutor;
  // Default: false. Whether a repeated request runs again instead of being refused (reads).
  bool repeatable = false;
};

namespace registry_internal {

// What a bound function keeps.
template <class Handler>
struct Binding {
  std::string name;
  std::string threw;  // "function NAME threw"
  Handler handler;
};

// Writes a result; an error becomes the call's.
template <class R>
void Answer(const std::string& function, ReplyFn& reply, const Outcome<R>& outcome) {
  if constexpr (std::is_void_v<R>) {
    if (!outcome.ok()) return reply(outcome);
    reply(Payload());
  } else {
    if (!outcome.ok()) return reply(outcome.status());
    PayloadWriter out(Sharing::kTakeOrCopy);
    const absl::Status encoded = Codec<R>::Encode(out, *outcome);
    if (!encoded.ok()) {
      return reply(absl::InternalError(
          absl::StrCat("the result of ", function, " can't be sent: ", encoded.message())));
    }
    reply(out.TakePayload());
  }
}

// Reads the arguments one after the other.
template <class... Args>
absl::Status DecodeArguments(const std::string& function, ReceivedPayload& payload,
                             std::tuple<std::optional<Args>...>& out) {
  PayloadReader in(payload);
  absl::Status status;
  uint32_t number = 0;
  [[maybe_unused]] const auto one = [&]<class T>(std::optional<T>& slot) {
    ++number;
    absl::StatusOr<T> value = Codec<T>::Decode(in);
    if (!value.ok()) {
      status = WithContext(value.status(), absl::StrCat("argument ", number, " of ", function));
      return false;
    }
    slot.emplace(*std::move(value));
    return true;
  };
  std::apply([&](auto&... slots) { (void)(one(slots) && ...); }, out);
  if (!status.ok()) return status;
  return WithContext(in.Finish(), absl::StrCat("arguments of ", function));
}

// Calls the handler, with the CallInfo if it wants one.
template <class Handler, class... Args>
decltype(auto) Invoke(const Handler& handler, CallInfo& info,
                      std::tuple<std::optional<Args>...>& arguments) {
  return std::apply(
      [&](auto&... slots) -> decltype(auto) {
        if constexpr (std::is_invocable_v<const Handler&, CallInfo&, Args&&...>) {
          return std::invoke(handler, info, std::move(*slots)...);
        } else {
          return std::invoke(handler, std::move(*slots)...);
        }
      },
      arguments);
}

// Decodes, calls, and gives the handler's outcome or Future. The arguments are gone when it
// returns, so that a result that was one of them has one holder.
template <class R, class Result, class Handler, class... Args>
Result DecodeAndInvoke(const Binding<Handler>& binding, CallInfo& info, ReceivedPayload& payload) {
  std::tuple<std::optional<Args>...> arguments;
  if (absl::Status decoded = DecodeArguments<Args...>(binding.name, payload, arguments);
      !decoded.ok()) {
    return Result(std::move(decoded));
  }
  const HandlerScope scope;
  using Returned = decltype(Invoke<Handler, Args...>(binding.handler, info, arguments));
  if constexpr (std::is_void_v<Returned>) {
    Invoke<Handler, Args...>(binding.handler, info, arguments);
    return absl::OkStatus();
  } else {
    return Result(Invoke<Handler, Args...>(binding.handler, info, arguments));
  }
}

// Runs one call. May throw as long as `reply` isn't moved from.
template <class R, class Handler, class... Args>
void Serve(const std::shared_ptr<const Binding<Handler>>& binding, std::shared_ptr<CallInfo> info,
           ReceivedPayload payload, ReplyFn& reply) {
  using Returned = decltype(Invoke<Handler, Args...>(
      binding->handler, *info, std::declval<std::tuple<std::optional<Args>...>&>()));
  if constexpr (future_internal::IsFuture<std::remove_cvref_t<Returned>>::value) {
    static_assert(std::is_same_v<std::remove_cvref_t<Returned>, Future<R>>,
                  "gradwire: this handler's future is not one of the function's result");
    const Future<R> future =
        DecodeAndInvoke<R, Future<R>, Handler, Args...>(*binding, *info, payload);
    if (!future.valid()) {
      return reply(absl::InternalError(
          absl::StrCat("function ", binding->name, " returned a future without a state")));
    }
    if (!future.ready()) info->OnCancel([future] { future.Cancel(); });
    future.OnReady([binding, info, reply = std::move(reply)](const Outcome<R>& outcome) mutable {
      absl::Status threw = Fence(binding->threw, [&] { Answer<R>(binding->name, reply, outcome); });
      if (!threw.ok()) reply(std::move(threw));
    });
  } else {
    static_assert(!std::is_void_v<Returned> || std::is_void_v<R>,
                  "gradwire: this handler returns nothing, but its function has a result");
    static_assert(std::is_void_v<Returned> || std::is_convertible_v<Returned, Outcome<R>>,
                  "gradwire: what this handler returns is not the function's result: return R, "
                  "absl::StatusOr<R> or Future<R>; for void functions nothing, absl::Status or "
                  "Future<void>");
    Answer<R>(binding->name, reply,
              DecodeAndInvoke<R, Outcome<R>, Handler, Args...>(*binding, *info, payload));
  }
}

}  // namespace registry_internal

class Registry {
 public:
  // All functions of the program's GW_FUNCTION lines.
  static Registry FromStatic();

  // Binds `handler` to `function`.
  template <class R, class... Args, class Handler>
  Registry& Bind(const Function<R(Args...)>& function, Handler handler, BindOptions options = {},
                 std::source_location place = std::source_location::current()) {
    using registry_internal::Binding;
    static_assert(std::is_invocable_v<const Handler&, std::decay_t<Args>&&...> ||
                      std::is_invocable_v<const Handler&, CallInfo&, std::decay_t<Args>&&...>,
                  "gradwire: this handler can't be called with the function's arguments, as a "
                  "const object (a mutable lambda can't be bound: calls run at the same time)");
    auto binding = std::make_shared<const Binding<Handler>>(Binding<Handler>{
        function.name(), absl::StrCat("function ", function.name(), " threw"), std::move(handler)});
    BoundFunction bound;
    bound.name = function.name();
    bound.declaration = function.declaration();
    bound.run = options.run;
    bound.repeatable = options.repeatable;
    bound.handler = [binding](std::shared_ptr<CallInfo> info, ReceivedPayload payload,
                              ReplyFn reply) {
      absl::Status threw = Fence(binding->threw, [&] {
        registry_internal::Serve<R, Handler, std::decay_t<Args>...>(binding, std::move(info),
                                                                    std::move(payload), reply);
      });
      if (!threw.ok() && reply) reply(std::move(threw));
    };
    return Add(std::move(bound), place);
  }

  // Binds bytes in, bytes out; for names and types that are known only at run time. Sets the place.
  Registry& Add(BoundFunction function,
                std::source_location place = std::source_location::current());

  // INVALID_ARGUMENT: a name that is none; ALREADY_EXISTS: one bound twice, with both places.
  absl::Status Validate() const;

  const std::vector<BoundFunction>& functions() const { return functions_; }

 private:
  std::vector<BoundFunction> functions_;
};

namespace registry_internal {

// A line of the program's static list; lives for ever.
class StaticBinding {
 public:
  explicit StaticBinding(void (*bind)(Registry&));
  StaticBinding(const StaticBinding&) = delete;
  StaticBinding& operator=(const StaticBinding&) = delete;

 private:
  friend class ::gradwire::rpc::Registry;
  void (*const bind_)(Registry&);
  const StaticBinding* next_ = nullptr;
};

}  // namespace registry_internal
}  // namespace gradwire::rpc

// At namespace scope: GW_FUNCTION(kAdd, Add) binds for Registry::FromStatic(), as Bind(kAdd, Add)
// would; options follow the handler.
#define GW_FUNCTION(function, ...)                                                               \
  [[maybe_unused]] static const ::gradwire::rpc::registry_internal::StaticBinding GW_STATUS_CAT( \
      gw_function_, __COUNTER__)(                                                                \
      [](::gradwire::rpc::Registry& gw_registry) { gw_registry.Bind(function, __VA_ARGS__); })

// A linker drops files of a static library that nothing refers to, their GW_FUNCTION lines with
// them. GW_FUNCTION_LIBRARY(name) in such a file, and GW_USE_FUNCTIONS(name) in the program, keep
// it.
#define GW_FUNCTION_LIBRARY(name)                 \
  extern "C" void gw_function_library_##name();   \
  extern "C" void gw_function_library_##name() {} \
  static_assert(true)
#define GW_USE_FUNCTIONS(name)                  \
  extern "C" void gw_function_library_##name(); \
  [[maybe_unused]] static const bool gw_uses_functions_##name = (gw_function_library_##name(), true)
