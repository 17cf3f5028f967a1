// Calls of bound functions without an agent: encode, run the handler, decode.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc/function.h"
#include "rpc/registry.h"

namespace gradwire::rpc::testing {

class FakeCallInfo final : public CallInfo {
 public:
  explicit FakeCallInfo(std::string function) : function_(std::move(function)) {}
  const std::string& caller() const override { return caller_; }
  Incarnation caller_incarnation() const override { return Incarnation{7}; }
  const std::string& function() const override { return function_; }
  absl::Time deadline() const override { return absl::InfiniteFuture(); }
  bool cancelled() const override { return cancelled_; }
  void OnCancel(absl::AnyInvocable<void()> fn) override { on_cancel_.push_back(std::move(fn)); }

  void Cancel() {
    cancelled_ = true;
    for (auto& fn : std::exchange(on_cancel_, {})) fn();
  }

 private:
  const std::string caller_ = "tester";
  const std::string function_;
  bool cancelled_ = false;
  std::vector<absl::AnyInvocable<void()>> on_cancel_;
};

// What a call came to: nothing yet, or its outcome.
struct Reply {
  std::optional<absl::StatusOr<Payload>> outcome;
  int count = 0;
};

inline ReceivedPayload Arrive(const Payload& payload, bool exclusive = false) {
  ReceivedPayload received;
  received.head = payload.head;
  for (const Buffer& bytes : payload.attachments) {
    received.attachments.push_back({bytes, exclusive});
  }
  return received;
}

// Runs the bound function `name` on `arguments`.
inline std::shared_ptr<Reply> Run(const Registry& registry, const std::string& name,
                                  ReceivedPayload arguments,
                                  std::shared_ptr<FakeCallInfo> info = nullptr) {
  auto reply = std::make_shared<Reply>();
  if (info == nullptr) info = std::make_shared<FakeCallInfo>(name);
  for (const BoundFunction& bound : registry.functions()) {
    if (bound.name != name) continue;
    bound.handler(info, std::move(arguments), [reply](absl::StatusOr<Payload> outcome) {
      ++reply->count;
      reply->outcome.emplace(std::move(outcome));
    });
    return reply;
  }
  ADD_FAILURE() << name << " is not bound";
  return reply;
}

// A whole call of a function that answers at once.
template <class R, class... Args>
Outcome<R> Call(const Registry& registry, const BoundCall<R(Args...)>& call,
                bool exclusive = false) {
  PayloadWriter out(Sharing::kBorrow, {}, call.name());
  GW_RETURN_IF_ERROR(call.Encode(out));
  const std::shared_ptr<Reply> reply =
      Run(registry, std::string(call.name()), Arrive(out.TakePayload(), exclusive));
  if (reply->count != 1) {
    return absl::UnknownError(absl::StrCat(call.name(), " answered ", reply->count, " times"));
  }
  GW_RETURN_IF_ERROR(reply->outcome->status());
  return DecodeResult<R>(call.name(), Arrive(**reply->outcome, exclusive));
}

}  // namespace gradwire::rpc::testing
