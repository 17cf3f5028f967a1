#include "rpc/agent/call.h"

namespace gradwire::rpc {
namespace {
thread_local const IncomingCall* current_incoming_call = nullptr;
}  // namespace

const IncomingCall* CurrentIncomingCall() { return current_incoming_call; }

ScopedIncomingCall::ScopedIncomingCall(const IncomingCall* call) : outer_(current_incoming_call) {
  current_incoming_call = call;
}
ScopedIncomingCall::~ScopedIncomingCall() { current_incoming_call = outer_; }

const char* CallPhaseName(CallPhase phase) {
  switch (phase) {
    case CallPhase::kConnecting:
      return "waiting for the connection";
    case CallPhase::kAwaitingCredit:
      return "waiting for the peer to admit it";
    case CallPhase::kSent:
      return "sent, waiting for the reply";
  }
  return "unknown";
}

void IncomingCall::OnCancel(absl::AnyInvocable<void()> fn) {
  {
    MutexLock lock(mu_);
    if (!cancelled()) {
      on_cancel_.push_back(std::move(fn));
      return;
    }
  }
  fn();
}

void IncomingCall::Cancel() {
  std::vector<absl::AnyInvocable<void()>> callbacks;
  {
    MutexLock lock(mu_);
    cancelled_.store(true, std::memory_order_release);
    callbacks.swap(on_cancel_);
  }
  for (auto& callback : callbacks) callback();
}

}  // namespace gradwire::rpc
