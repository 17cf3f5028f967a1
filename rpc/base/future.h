// Future<T> and Promise<T>: one result, StatusOr inside, that arrives later.
//
// A Future<void> holds an absl::Status, every other Future<T> an absl::StatusOr<T> ("outcome").
//
// Ownership:     Futures are copyable handles to one shared state; a Promise is the single writer.
//                A promise destroyed without an outcome breaks: CANCELLED.
// Cancel:        ends the future at once with CANCELLED and tells the producer (OnCancel), who may
//                have run. Dropping futures detaches; it does not cancel.
// Thread-safety: all methods thread-safe. Continuations run on the executor given, or (ThenInline,
//                OnReady) on the thread that completes the future, or at once if it is complete:
//                keep those short. No lock is held while they run.
// Blocking:      Wait announces itself by BlockingRegion: on a polling thread it fails at once with
//                FAILED_PRECONDITION. It takes a deadline always.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"
#include "rpc/base/wait_driver.h"

namespace gradwire {

template <class T>
struct OutcomeOf {
  using type = absl::StatusOr<T>;
};
template <>
struct OutcomeOf<void> {
  using type = absl::Status;
};
template <class T>
using Outcome = typename OutcomeOf<T>::type;

template <class T>
class Future;
template <class T>
class Promise;

namespace future_internal {

// What does not depend on T: readiness, waiting, continuations, cancellation.
class StateBase {
 public:
  virtual ~StateBase() = default;

  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // Waits until ready. OK, or why not: DEADLINE_EXCEEDED and BlockingRegion's refusals.
  absl::Status WaitReady(absl::Time deadline) GW_EXCLUDES(mu_);
  // Runs `task` when ready, at once if it is already.
  void OnReady(Task task) GW_EXCLUDES(mu_);
  // `handler` runs once if the future is cancelled before it is ready.
  void SetCancelHandler(Task handler) GW_EXCLUDES(mu_);
  // Claims the right to set the outcome; false when somebody has it.
  bool Claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }
  // Publishes the outcome that the claimant stored; runs continuations.
  void Publish() GW_EXCLUDES(mu_);
  // Moves the cancel handler out.
  Task TakeCancelHandler() GW_EXCLUDES(mu_);
  // Where the result comes from: the first waiter does that work itself, if it may. No-op when
  // ready.
  void SetWaitDriver(std::shared_ptr<WaitDriverSource> source) GW_EXCLUDES(mu_);

 private:
  // Returns when ready, at the deadline, or when this thread has to sleep.
  void WaitByDriving(absl::Time deadline) GW_EXCLUDES(mu_);

  // `claimed_` orders writers of the outcome; `ready_` publishes it to readers that take no lock.
  std::atomic<bool> claimed_{false};
  std::atomic<bool> ready_{false};
  Mutex mu_;
  CondVar done_;
  int waiter_count_ GW_GUARDED_BY(mu_) = 0;
  Task continuation_ GW_GUARDED_BY(mu_);  // the first; most futures have one at most
  std::vector<Task> more_ GW_GUARDED_BY(mu_);
  Task cancel_handler_ GW_GUARDED_BY(mu_);
  std::shared_ptr<WaitDriverSource> source_ GW_GUARDED_BY(mu_);
  std::shared_ptr<WaitDriver> driver_ GW_GUARDED_BY(mu_);  // a waiter uses it
  bool counted_asleep_ GW_GUARDED_BY(mu_) = false;         // … and has to be reported as woken
};

template <class T>
class State final : public StateBase {
 public:
  bool Set(Outcome<T> outcome) {
    if (!Claim()) return false;
    outcome_.emplace(std::move(outcome));
    Publish();
    return true;
  }
  void Cancel() {
    Task handler = TakeCancelHandler();
    if (!Set(absl::CancelledError("cancelled by the caller"))) return;
    if (handler) handler();
  }
  // Only when ready().
  Outcome<T>& outcome() { return *outcome_; }

 private:
  std::optional<Outcome<T>> outcome_;
};

// What a continuation returns, as the T of the Future that Then gives.
template <class R>
struct Flatten {
  using type = R;
};
template <class R>
struct Flatten<absl::StatusOr<R>> {
  using type = R;
};
template <class R>
struct Flatten<Future<R>> {
  using type = R;
};
template <>
struct Flatten<absl::Status> {
  using type = void;
};

template <class R>
struct IsFuture : std::false_type {};
template <class R>
struct IsFuture<Future<R>> : std::true_type {};

}  // namespace future_internal

template <class T>
class [[nodiscard]] Future {
 public:
  using value_type = T;

  // A future without a state: valid() is false and nothing else may be called.
  Future() = default;
  // Ready from the start.
  explicit Future(Outcome<T> outcome) : state_(std::make_shared<future_internal::State<T>>()) {
    state_->Set(std::move(outcome));
  }

  bool valid() const { return state_ != nullptr; }
  bool ready() const { return state_->ready(); }

  // The outcome, or DEADLINE_EXCEEDED (the future stays usable), FAILED_PRECONDITION (polling
  // thread), RESOURCE_EXHAUSTED (executor without spare threads). The && form moves the value out.
  Outcome<T> Wait(absl::Time deadline) const& {
    if (absl::Status waited = state_->WaitReady(deadline); !waited.ok()) return waited;
    return state_->outcome();
  }
  Outcome<T> Wait(absl::Time deadline) && {
    if (absl::Status waited = state_->WaitReady(deadline); !waited.ok()) return waited;
    return std::move(state_->outcome());
  }
  Outcome<T> Wait(absl::Duration timeout) const& { return Wait(absl::Now() + timeout); }
  Outcome<T> Wait(absl::Duration timeout) && {
    return std::move(*this).Wait(absl::Now() + timeout);
  }

  // The outcome of a ready future, without copying it. Only when ready().
  const Outcome<T>& outcome() const { return state_->outcome(); }

  // Ends this future with CANCELLED unless it is ready, and tells the producer.
  void Cancel() const { state_->Cancel(); }

  // Calls `fn(const Outcome<T>&)` on `executor` when ready; the result is what `fn` returns (a
  // value, a Status or StatusOr, a Future, or void). If the executor refuses, the result is its
  // error.
  template <class F>
  auto Then(Executor* executor, F fn) const {
    return ThenImpl(executor, std::move(fn));
  }
  // The same on the completing thread.
  template <class F>
  auto ThenInline(F fn) const {
    return ThenImpl(nullptr, std::move(fn));
  }
  // Calls `fn(const Outcome<T>&)` on the completing thread; no result.
  template <class F>
  void OnReady(F fn) const {
    state_->OnReady(
        [state = state_, fn = std::move(fn)]() mutable { fn(std::as_const(state->outcome())); });
  }

 private:
  friend class Promise<T>;
  explicit Future(std::shared_ptr<future_internal::State<T>> state) : state_(std::move(state)) {}

  template <class F>
  auto ThenImpl(Executor* executor, F fn) const;

  std::shared_ptr<future_internal::State<T>> state_;
};

template <class T>
class Promise {
 public:
  Promise() : state_(std::make_shared<future_internal::State<T>>()) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    if (this != &other) {
      Break();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() { Break(); }

  Future<T> future() const { return Future<T>(state_); }

  // Sets the outcome. False: it had one (set before, or cancelled).
  // A waiter that owns this promise may destroy it as soon as the outcome shows.
  bool Set(Outcome<T> outcome) {
    const auto state = state_;
    return state->Set(std::move(outcome));
  }
  bool done() const { return state_->ready(); }

  // `handler` runs once, on the cancelling thread, if the future is cancelled before it is ready.
  void OnCancel(Task handler) { state_->SetCancelHandler(std::move(handler)); }

  // A waiter of this future may do the work that brings its result (wait_driver.h).
  void SetWaitDriver(std::shared_ptr<WaitDriverSource> source) {
    state_->SetWaitDriver(std::move(source));
  }

 private:
  void Break() {
    if (state_ == nullptr) return;
    if (!state_->ready()) {
      state_->Set(absl::CancelledError("the promise was dropped without a result"));
    }
    state_ = nullptr;
  }
  std::shared_ptr<future_internal::State<T>> state_;
};

namespace future_internal {

// Fulfils `promise` with what fn(outcome) returns.
template <class U, class F, class O>
void Fulfil(Promise<U>& promise, F& fn, const O& outcome) {
  using R = std::invoke_result_t<F&, const O&>;
  if constexpr (IsFuture<R>::value) {
    R inner = fn(outcome);
    promise.OnCancel([inner] { inner.Cancel(); });
    inner.OnReady(
        [promise = std::move(promise)](const Outcome<U>& result) mutable { promise.Set(result); });
  } else if constexpr (std::is_void_v<R>) {
    fn(outcome);
    promise.Set(absl::OkStatus());
  } else {
    promise.Set(fn(outcome));
  }
}

}  // namespace future_internal

template <class T>
template <class F>
auto Future<T>::ThenImpl(Executor* executor, F fn) const {
  using R = std::invoke_result_t<F&, const Outcome<T>&>;
  using U = typename future_internal::Flatten<R>::type;
  Promise<U> promise;
  Future<U> result = promise.future();
  // Cancelling the continuation cancels what it waits for.
  promise.OnCancel([source = *this] { source.Cancel(); });
  auto shared = std::make_shared<std::pair<Promise<U>, F>>(std::move(promise), std::move(fn));
  state_->OnReady([state = state_, executor, shared] {
    if (executor == nullptr) {
      future_internal::Fulfil(shared->first, shared->second, std::as_const(state->outcome()));
      return;
    }
    absl::Status posted = executor->Post([state, shared] {
      future_internal::Fulfil(shared->first, shared->second, std::as_const(state->outcome()));
    });
    if (!posted.ok()) shared->first.Set(posted);
  });
  return result;
}

// Ready when all are; keeps order; never fails itself. An empty list is ready at once.
template <class T>
Future<std::vector<Outcome<T>>> WhenAll(std::vector<Future<T>> futures) {
  struct Joint {
    std::vector<Future<T>> futures;
    std::atomic<size_t> left;  // counts down; the last one to finish publishes, acq_rel orders it
    Promise<std::vector<Outcome<T>>> promise;
  };
  auto joint = std::make_shared<Joint>();
  joint->futures = std::move(futures);
  joint->left = joint->futures.size();
  Future<std::vector<Outcome<T>>> result = joint->promise.future();
  if (joint->futures.empty()) {
    joint->promise.Set(std::vector<Outcome<T>>());
    return result;
  }
  joint->promise.OnCancel([weak = std::weak_ptr<Joint>(joint)] {
    if (auto joint = weak.lock()) {
      for (const Future<T>& future : joint->futures) future.Cancel();
    }
  });
  for (const Future<T>& future : joint->futures) {
    future.OnReady([joint](const Outcome<T>&) {
      if (joint->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      std::vector<Outcome<T>> all;
      all.reserve(joint->futures.size());
      for (const Future<T>& done : joint->futures) all.push_back(done.outcome());
      joint->promise.Set(std::move(all));
    });
  }
  return result;
}

// Ready with the index of the first one that is. INVALID_ARGUMENT for an empty list.
template <class T>
Future<size_t> WhenAny(const std::vector<Future<T>>& futures) {
  auto promise = std::make_shared<Promise<size_t>>();
  Future<size_t> result = promise->future();
  if (futures.empty()) promise->Set(absl::InvalidArgumentError("WhenAny of no futures"));
  for (size_t i = 0; i < futures.size(); ++i) {
    futures[i].OnReady([promise, i](const Outcome<T>&) { promise->Set(i); });
  }
  return result;
}

}  // namespace gradwire
