// A call that an agent makes to itself: the function runs here, on the executor, without a session.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "rpc/agent/node_impl.h"

namespace gradwire::rpc {

class SelfCall final : public CallInfo,
                       public CallOwner,
                       public std::enable_shared_from_this<SelfCall> {
 public:
  SelfCall(std::shared_ptr<NodeImpl> node, uint64_t number,
           std::shared_ptr<const BoundFunction> function, absl::Time deadline, ReplyCallback done);

  // Arms the deadline and posts the handler.
  void Start(Payload arguments);
  // Ends the call with `outcome` unless it has ended.
  void End(absl::StatusOr<ReceivedPayload> outcome);

  const std::string& caller() const override { return node_->self().agent.name; }
  Incarnation caller_incarnation() const override { return node_->self().agent.incarnation; }
  const std::string& function() const override { return function_->name; }
  absl::Time deadline() const override { return deadline_; }
  bool cancelled() const override { return cancelled_.load(std::memory_order_acquire); }
  void OnCancel(absl::AnyInvocable<void()> fn) override;
  void CancelCall(uint64_t seq) override;

 private:
  const std::shared_ptr<NodeImpl> node_;
  const uint64_t number_;
  const std::shared_ptr<const BoundFunction> function_;
  const absl::Time deadline_;
  std::atomic<bool> cancelled_{false};  // read by handlers without the lock; publishes nothing else
  Mutex mu_;
  ReplyCallback done_ GW_GUARDED_BY(mu_);
  TimerId timer_ GW_GUARDED_BY(mu_);
  std::vector<absl::AnyInvocable<void()>> on_cancel_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
