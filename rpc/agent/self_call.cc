#include "rpc/agent/self_call.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire::rpc {
namespace {

ReceivedPayload Receive(Payload payload) {
  ReceivedPayload received;
  received.head = std::move(payload.head);
  for (Buffer& attachment : payload.attachments) {
    received.attachments.push_back({std::move(attachment), /*exclusive=*/false});
  }
  return received;
}

// Answers for a handler that drops its reply.
class SelfReplier {
 public:
  explicit SelfReplier(std::shared_ptr<SelfCall> call) : call_(std::move(call)) {}
  SelfReplier(SelfReplier&&) noexcept = default;
  SelfReplier& operator=(SelfReplier&&) = delete;
  ~SelfReplier() {
    if (call_ == nullptr) return;
    call_->End(absl::InternalError(absl::StrCat(
        "function ", call_->function(), " ended without a result (its reply was dropped)")));
  }
  void operator()(absl::StatusOr<Payload> outcome) {
    if (outcome.ok()) {
      call_->End(Receive(*std::move(outcome)));
    } else {
      call_->End(absl::Status(outcome.status().code(),
                              absl::StrCat(call_->function(), " on ", call_->caller(), ": ",
                                           outcome.status().message())));
    }
  }

 private:
  std::shared_ptr<SelfCall> call_;
};

}  // namespace

SelfCall::SelfCall(std::shared_ptr<NodeImpl> node, uint64_t number,
                   std::shared_ptr<const BoundFunction> function, absl::Time deadline,
                   ReplyCallback done)
    : node_(std::move(node)),
      number_(number),
      function_(std::move(function)),
      deadline_(deadline),
      done_(std::move(done)) {}

void SelfCall::Start(Payload arguments) {
  {
    MutexLock lock(mu_);
    timer_ = node_->clock().CallAt(deadline_, [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->End(absl::DeadlineExceededError(
            absl::StrCat("call ", self->function(), " to ", self->caller(),
                         " (this agent itself): no result within the call's deadline")));
      }
    });
  }
  auto received = std::make_shared<ReceivedPayload>(Receive(std::move(arguments)));
  absl::Status posted = node_->env().executor->Post([self = shared_from_this(), received] {
    if (self->cancelled()) return;
    std::optional<ScopedThreadRole> role;  // as in Session::RunHandler
    if (self->function_->run == Run::kInline) role.emplace(ThreadRole::kPolling);
    self->function_->handler(self, std::move(*received), SelfReplier(self));
  });
  if (!posted.ok()) End(posted);
}

void SelfCall::End(absl::StatusOr<ReceivedPayload> outcome) {
  ReplyCallback done;
  std::vector<absl::AnyInvocable<void()>> on_cancel;
  {
    MutexLock lock(mu_);
    if (!done_) return;
    done = std::exchange(done_, nullptr);
    if (timer_.value != 0) node_->clock().CancelTimer(timer_);
    cancelled_.store(true, std::memory_order_release);
    if (!outcome.ok()) on_cancel.swap(on_cancel_);
  }
  done(std::move(outcome));
  for (auto& fn : on_cancel) fn();
  node_->SelfCallEnded(number_);
}

void SelfCall::OnCancel(absl::AnyInvocable<void()> fn) {
  {
    MutexLock lock(mu_);
    if (!cancelled()) {
      on_cancel_.push_back(std::move(fn));
      return;
    }
  }
  fn();
}

void SelfCall::CancelCall(uint64_t) {
  End(absl::CancelledError(
      absl::StrCat("call ", function(), " to ", caller(), ": cancelled by the caller")));
}

}  // namespace gradwire::rpc
