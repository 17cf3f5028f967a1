// The two halves of a call as the session keeps them: OutgoingCall at the caller, IncomingCall at
// the callee; and the options and names that they share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/agent/handler.h"
#include "rpc/base/id.h"
#include "rpc/base/mutex.h"
#include "rpc/base/wait_driver.h"
#include "rpc/tensor/payload.h"

namespace gradwire::rpc {

class Session;

// A function as a caller names it. Interned by the Node: one address a (name, declaration), valid
// as long as the Node.
struct FunctionId {
  std::string name;
  std::string declaration;
  uint32_t index = 0;  // dense, in order of interning
};

// Whoever keeps calls that can be cancelled by their number.
class CallOwner : public WaitDriverSource {
 public:
  virtual void CancelCall(uint64_t seq) = 0;
  std::shared_ptr<WaitDriver> wait_driver() override { return nullptr; }
};

// Who is at the other end.
struct PeerIdentity {
  std::string name;
  Incarnation incarnation;
};

struct CallOptions {
  // Default: 0 = AgentLimits::default_timeout.
  absl::Duration timeout = absl::ZeroDuration();
  // Default: false. true: large tensors are copied when the call starts, and may be changed at
  // once. Otherwise arguments above 64 KiB are borrowed until the reply; one that changes meanwhile
  // fails the call by name.
  bool copy = false;
};

// Gets the outcome of a call, once, on a polling thread, or on the thread that cancelled or started
// it.
using ReplyCallback = absl::AnyInvocable<void(absl::StatusOr<ReceivedPayload>)>;

// Bytes that arrive in several parts: a head and attachments, some of them still on the bulk lane.
struct StagedPayload {
  ReceivedPayload payload;
  int missing_count = 0;
  absl::InlinedVector<uint64_t, 2> transfers;  // those still missing
  uint64_t staged_bytes = 0;                   // of transfers that arrived, in `payload`
};

// What a call is waiting for; part of every error message.
enum class CallPhase { kConnecting, kAwaitingCredit, kSent };
const char* CallPhaseName(CallPhase phase);

struct OutgoingCall {
  const FunctionId* function = nullptr;
  ReplyCallback done;
  absl::Time started;
  absl::Time deadline;
  CallPhase phase = CallPhase::kConnecting;
  bool nested = false;
  bool answered = false;  // the reply's item has come; its transfers may be missing
  Payload arguments;      // until the request is in the outbox
  absl::InlinedVector<uint64_t, 2> transfers;  // request transfers, dropped with the call
  StagedPayload reply;
};

// One call at the callee. Thread-safety: the CallInfo methods are thread-safe; the rest belongs to
// the session, under its lock.
class IncomingCall final : public CallInfo {
 public:
  enum class State { kStaging, kReady, kRunning, kReplied };

  IncomingCall(std::weak_ptr<Session> session, std::shared_ptr<const PeerIdentity> caller,
               uint64_t seq, std::shared_ptr<const BoundFunction> function, absl::Time deadline)
      : session_(std::move(session)),
        caller_(std::move(caller)),
        seq_(seq),
        function_(std::move(function)),
        deadline_(deadline) {}

  const std::string& caller() const override { return caller_->name; }
  Incarnation caller_incarnation() const override { return caller_->incarnation; }
  const std::string& function() const override { return function_->name; }
  absl::Time deadline() const override { return deadline_; }
  bool cancelled() const override { return cancelled_.load(std::memory_order_acquire); }
  void OnCancel(absl::AnyInvocable<void()> fn) override;

  // Marks the call cancelled and runs what waits for that. Idempotent; not under a lock.
  void Cancel();

  uint64_t seq() const { return seq_; }
  const BoundFunction* bound() const { return function_.get(); }
  bool replied() const { return replied_.load(std::memory_order_acquire); }
  const std::weak_ptr<Session>& session() const { return session_; }

  // Under the session's lock.
  State state = State::kStaging;
  bool nested = false;  // class of its credit
  bool credit_returned = false;
  bool counted_running = false;  // posted or started, and counted so
  StagedPayload arguments;

  // True once: who gets it may reply.
  bool ClaimReply() { return !replied_.exchange(true, std::memory_order_acq_rel); }

 private:
  const std::weak_ptr<Session> session_;
  const std::shared_ptr<const PeerIdentity> caller_;
  const uint64_t seq_;
  const std::shared_ptr<const BoundFunction> function_;  // shares the agent's table
  const absl::Time deadline_;
  std::atomic<bool> cancelled_{false};  // read without the lock by handlers; publishes nothing else
  std::atomic<bool> replied_{
      false};  // claims the one reply; the reply itself goes under the session's lock
  Mutex mu_;
  std::vector<absl::AnyInvocable<void()>> on_cancel_ GW_GUARDED_BY(mu_);
};

// The incoming call whose handler runs on this thread; null outside handlers. Calls that are
// started meanwhile are nested.
const IncomingCall* CurrentIncomingCall();

// Sets it for a scope.
class ScopedIncomingCall {
 public:
  explicit ScopedIncomingCall(const IncomingCall* call);
  ~ScopedIncomingCall();
  ScopedIncomingCall(const ScopedIncomingCall&) = delete;
  ScopedIncomingCall& operator=(const ScopedIncomingCall&) = delete;

 private:
  const IncomingCall* const outer_;
};

}  // namespace gradwire::rpc
