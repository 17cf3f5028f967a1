// Registry: which functions an agent serves, and what runs for each.
//
//   rpc::Registry functions;
//   functions.Bind(kAdd, [](int64_t a, int64_t b) { return a + b; })
//            .Bind(kSlow, Slow, {.run = rpc::kExecutor});
//
// A handler takes the function's arguments, by value or const reference, optionally after a
// CallInfo&, and returns the result R, absl::StatusOr<R>, Future<R>, or for void functions void or
// absl::Status. Nobody can be made to run what is not bound here. Errors:        found by
// Agent::Start: a bad name, a name bound twice (with both places). Exceptions:    one that leaves a
// handler becomes INTERNAL "function NAME threw: …". Thread-safety: none; fill it, then hand it to
// an Agent. Handlers must be thread-safe: they run concurrently.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/agent/handler.h"
#include "rpc/base/future.h"
#include "rpc/exception_fence.h"
#include "rpc/function.h"

namespace gradwire::rpc {

struct BindOptions {
  // Default: kExecutor. kInline: short functions, on the polling thread; must not block.
  Run run = Run::kExecutor;
  // Default: false. Whether a repeated request runs again instead of being refused (reads).
  bool repeatable = false;
};

namespace registry_internal {

// Writes a result; an error becomes the call's.
template <class R>
void Answer(absl::string_view function, ReplyFn& reply, const Outcome<R>& outcome) {
  if constexpr (std::is_void_v<R>) {
    if (!outcome.ok()) {
      reply(outcome);
    } else {
      reply(Payload());
    }
  } else {
    if (!outcome.ok()) return reply(outcome.status());
    PayloadWriter out(Sharing::kTakeOrCopy);
    absl::Status encoded = Codec<R>::Encode(out, *outcome);
    if (!encoded.ok()) {
      return reply(WithContext(encoded, absl::StrCat("the result of ", function)));
    }
    reply(out.TakePayload());
  }
}

// Reads the arguments one after the other.
template <class... Args>
absl::Status DecodeArguments(absl::string_view function, ReceivedPayload& payload,
                             std::tuple<std::optional<Args>...>& out) {
  PayloadReader in(payload);
  absl::Status status;
  uint32_t number = 0;
  const auto one = [&]<class T>(std::optional<T>& slot) {
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

template <class T>
struct IsFuture : std::false_type {};
template <class T>
struct IsFuture<Future<T>> : std::true_type {};

// Calls the handler, with the CallInfo if it wants one.
template <class Handler, class... Args>
decltype(auto) Invoke(Handler& handler, CallInfo& info, std::tuple<std::optional<Args>...>& args) {
  return std::apply(
      [&](auto&... slots) -> decltype(auto) {
        if constexpr (std::is_invocable_v<Handler&, CallInfo&, Args&&...>) {
          return std::invoke(handler, info, std::move(*slots)...);
        } else {
          return std::invoke(handler, std::move(*slots)...);
        }
      },
      args);
}

template <class R, class Handler, class... Args>
void Run(Handler& handler, const std::string& name, const std::shared_ptr<CallInfo>& info,
         ReceivedPayload payload, ReplyFn reply) {
  std::tuple<std::optional<Args>...> arguments;
  if (absl::Status decoded = DecodeArguments<Args...>(name, payload, arguments); !decoded.ok()) {
    return reply(decoded);
  }
  using Returned = decltype(Invoke<Handler, Args...>(handler, *info, arguments));
  if constexpr (IsFuture<Returned>::value) {
    Returned future = Invoke<Handler, Args...>(handler, *info, arguments);
    if (!future.valid()) {
      return reply(absl::InternalError(absl::StrCat("function ", name, " returned no future")));
    }
    info->OnCancel([future] { future.Cancel(); });
    auto held = std::make_shared<ReplyFn>(std::move(reply));
    future.OnReady([held, name, info](const Outcome<R>& outcome) {
      absl::Status threw = Fence(name, [&] { Answer<R>(name, *held, outcome); });
      if (!threw.ok()) (*held)(threw);
    });
  } else if constexpr (std::is_void_v<Returned>) {
    static_assert(std::is_void_v<R>, "gradwire: this handler returns nothing, its function does");
    Invoke<Handler, Args...>(handler, *info, arguments);
    reply(Payload());
  } else {
    static_assert(std::is_convertible_v<Returned, Outcome<R>>,
                  "gradwire: this handler's result is not the function's");
    Answer<R>(name, reply, Outcome<R>(Invoke<Handler, Args...>(handler, *info, arguments)));
  }
}

}  // namespace registry_internal

class Registry {
 public:
  // Binds `handler` to `function`.
  template <class R, class... Args, class Handler>
  Registry& Bind(const Function<R(Args...)>& function, Handler handler, BindOptions options = {},
                 std::source_location place = std::source_location::current()) {
    static_assert(std::is_invocable_v<Handler&, std::decay_t<Args>&&...> ||
                      std::is_invocable_v<Handler&, CallInfo&, std::decay_t<Args>&&...>,
                  "gradwire: this handler can't be called with the function's arguments");
    BoundFunction bound;
    bound.name = function.name();
    bound.declaration = function.declaration();
    bound.place = absl::StrCat(place.file_name(), ":", place.line());
    bound.run = options.run;
    bound.repeatable = options.repeatable;
    auto shared = std::make_shared<Handler>(std::move(handler));
    bound.handler = [shared, name = bound.name](std::shared_ptr<CallInfo> info,
                                                ReceivedPayload payload, ReplyFn reply) {
      // The reply survives an exception: whoever still holds it answers with the error.
      auto held = std::make_shared<ReplyFn>(std::move(reply));
      absl::Status threw = Fence(name, [&] {
        registry_internal::Run<R, Handler, std::decay_t<Args>...>(
            *shared, name, info, std::move(payload),
            [held](absl::StatusOr<Payload> outcome) { (*held)(std::move(outcome)); });
      });
      if (!threw.ok()) (*held)(threw);
    };
    functions_.push_back(std::move(bound));
    return *this;
  }

  const std::vector<BoundFunction>& functions() const { return functions_; }

 private:
  std::vector<BoundFunction> functions_;
};

}  // namespace gradwire::rpc
