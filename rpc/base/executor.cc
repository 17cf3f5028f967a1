#include "rpc/base/executor.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"

namespace gradwire {
namespace {
thread_local ThreadRole current_role = ThreadRole::kFree;
thread_local Executor* current_executor = nullptr;
}  // namespace

ThreadRole CurrentThreadRole() { return current_role; }

ScopedThreadRole::ScopedThreadRole(ThreadRole role, Executor* executor)
    : old_role_(current_role), old_executor_(current_executor) {
  current_role = role;
  current_executor = executor;
}

ScopedThreadRole::~ScopedThreadRole() {
  current_role = old_role_;
  current_executor = old_executor_;
}

BlockingRegion::BlockingRegion() {
  switch (current_role) {
    case ThreadRole::kFree:
      return;
    case ThreadRole::kPolling:
    case ThreadRole::kDriving:
      status_ = absl::FailedPreconditionError(
          "a blocking wait on a polling thread would stop all traffic: bind the function without "
          "kInline, or continue with Then()");
      return;
    case ThreadRole::kExecutor:
      if (current_executor == nullptr) return;
      status_ = current_executor->EnterBlocking();
      if (status_.ok()) executor_ = current_executor;
      return;
  }
}

BlockingRegion::~BlockingRegion() {
  if (executor_ != nullptr) executor_->LeaveBlocking();
}

ThreadPool::ThreadPool(ThreadPoolOptions options)
    : options_([&] {
        if (options.slot_count == 0) {
          options.slot_count = std::max<size_t>(2, std::thread::hardware_concurrency());
        }
        return std::move(options);
      }()) {}

ThreadPool::~ThreadPool() {
  Close();
  std::vector<std::thread> threads;
  {
    MutexLock lock(mu_);
    // No thread of the pool is blocked for ever (every wait has a deadline), and a task that runs
    // may still need a spare thread, so threads are collected until none is left.
    while (!threads_.empty()) {
      threads.swap(threads_);
      lock.Unlock();
      for (std::thread& thread : threads) thread.join();
      threads.clear();
      lock.Lock();
    }
    GW_CHECK(queue_.empty());
  }
}

void ThreadPool::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  work_.NotifyAll();
}

absl::Status ThreadPool::Post(Task task) {
  MutexLock lock(mu_);
  if (closed_) {
    return absl::FailedPreconditionError(absl::StrCat("executor ", options_.name, " is closed"));
  }
  if (queue_.size() >= options_.max_queued_count) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "executor ", options_.name, " has ", queue_.size(), " tasks waiting (max_queued_count)"));
  }
  queue_.push_back(std::move(task));
  SpawnIfNeededLocked();
  return absl::OkStatus();
}

void ThreadPool::SpawnIfNeededLocked() {
  if (queue_.empty() || active_ >= options_.slot_count) return;
  if (idle_ > 0) {
    work_.NotifyOne();
    return;
  }
  if (threads_.size() >= options_.slot_count + options_.max_spare_count) return;
  const size_t index = threads_.size();
  threads_.emplace_back([this, index] { Run(index); });
}

absl::Status ThreadPool::EnterBlocking() {
  MutexLock lock(mu_);
  if (blocked_ >= options_.max_spare_count) {
    return absl::ResourceExhaustedError(
        absl::StrCat("executor ", options_.name, ": ", blocked_,
                     " tasks are blocked already (max_spare_count); return a Future instead of "
                     "waiting, or raise the limit"));
  }
  ++blocked_;
  --active_;
  SpawnIfNeededLocked();
  return absl::OkStatus();
}

void ThreadPool::LeaveBlocking() {
  MutexLock lock(mu_);
  --blocked_;
  ++active_;  // may exceed slot_count until the next task ends
}

void ThreadPool::Run(size_t index) {
  const std::string name = absl::StrCat(options_.name, "-", index).substr(0, 15);
  pthread_setname_np(pthread_self(), name.c_str());
  ScopedThreadRole role(ThreadRole::kExecutor, this);
  if (options_.on_thread_start != nullptr) options_.on_thread_start();
  MutexLock lock(mu_);
  while (true) {
    if (!queue_.empty() && active_ < options_.slot_count) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      ++active_;
      SpawnIfNeededLocked();
      lock.Unlock();
      [&]() noexcept { task(); }();
      task = nullptr;  // destroys captures outside the lock
      lock.Lock();
      --active_;
      continue;
    }
    if (closed_ && queue_.empty()) {
      work_.NotifyAll();
      return;
    }
    ++idle_;
    work_.Wait(mu_);
    --idle_;
  }
}

struct Strand::State {
  explicit State(Executor* executor) : executor(executor) {}
  Executor* const executor;
  Mutex mu;
  std::deque<Task> queue GW_GUARDED_BY(mu);
  bool running GW_GUARDED_BY(mu) = false;
};

Strand::Strand(Executor* executor) : state_(std::make_shared<State>(executor)) {}

absl::Status Strand::Post(Task task) {
  {
    MutexLock lock(state_->mu);
    state_->queue.push_back(std::move(task));
    if (state_->running) return absl::OkStatus();
    state_->running = true;
  }
  absl::Status posted = state_->executor->Post([state = state_] { Drain(state); });
  if (posted.ok()) return posted;
  // Nothing else was queued while `running` was ours unless another Post came in between; those
  // tasks get the same answer they would have had a moment later: they are dropped with ours.
  std::deque<Task> dropped;
  MutexLock lock(state_->mu);
  state_->running = false;
  dropped.swap(state_->queue);
  lock.Unlock();
  return posted;
}

void Strand::Drain(std::shared_ptr<State> state) {
  // A few tasks a turn, so that one busy strand does not keep a thread for itself.
  constexpr int kTasksPerTurn = 32;
  for (int i = 0; i < kTasksPerTurn; ++i) {
    Task task;
    {
      MutexLock lock(state->mu);
      if (state->queue.empty()) {
        state->running = false;
        return;
      }
      task = std::move(state->queue.front());
      state->queue.pop_front();
    }
    task();
  }
  if (!state->executor->Post([state] { Drain(state); }).ok()) Drain(state);
}

Gate::Pass& Gate::Pass::operator=(Pass&& other) noexcept {
  if (this != &other) {
    Release();
    gate_ = std::exchange(other.gate_, nullptr);
  }
  return *this;
}

void Gate::Pass::Release() {
  if (gate_ == nullptr) return;
  Gate* gate = std::exchange(gate_, nullptr);
  MutexLock lock(gate->mu_);
  if (--gate->inside_ == 0 && gate->closed_) gate->drained_.NotifyAll();
}

Gate::Pass Gate::TryEnter() {
  MutexLock lock(mu_);
  if (closed_) return Pass();
  ++inside_;
  return Pass(this);
}

void Gate::Close() {
  MutexLock lock(mu_);
  closed_ = true;
  if (inside_ == 0) drained_.NotifyAll();
}

bool Gate::Wait(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mu_);
  while (!closed_ || inside_ > 0) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    drained_.WaitFor(mu_, left);
  }
  return true;
}

}  // namespace gradwire
