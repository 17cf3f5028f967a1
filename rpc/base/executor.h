// Executors: where work runs that is not done on a polling thread.
//
// Twins:         ThreadPool here (bounded, named threads); SimExecutor in sim.h.
// Thread-safety: all methods thread-safe. Tasks must not let exceptions escape (the process ends
//                with a message if one does).
// Blocking:      a task that waits (Future::Wait, BlockingRegion) gives its slot away: another
//                thread takes the next task meanwhile. A waiting thread never runs other tasks on
//                its own stack. With max_spare_count threads blocked, the next wait fails with
//                RESOURCE_EXHAUSTED naming the limit.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rpc/base/mutex.h"

namespace gradwire {

using Task = absl::AnyInvocable<void()>;

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task` later, never inside this call. RESOURCE_EXHAUSTED: the queue is full;
  // FAILED_PRECONDITION: closed. On error the task was destroyed without running.
  virtual absl::Status Post(Task task) = 0;

  // Called by BlockingRegion on a thread of this executor around a wait.
  virtual absl::Status EnterBlocking() { return absl::OkStatus(); }
  virtual void LeaveBlocking() {}
};

// What the current thread may do. Threads that nobody marked are kFree.
enum class ThreadRole {
  kFree,      // a user's thread: may block
  kExecutor,  // runs a task: may block, gives its slot away meanwhile
  kPolling,   // reads the wire or timers: must not block; a wait fails with FAILED_PRECONDITION
  kDriving,   // a waiting thread that does a polling thread's work (wait_driver.h): like kPolling,
              // and runs no handlers, since its stack and its locks are somebody's
};

ThreadRole CurrentThreadRole();

// Marks the current thread for a scope.
class ScopedThreadRole {
 public:
  explicit ScopedThreadRole(ThreadRole role, Executor* executor = nullptr);
  ~ScopedThreadRole();
  ScopedThreadRole(const ScopedThreadRole&) = delete;
  ScopedThreadRole& operator=(const ScopedThreadRole&) = delete;

 private:
  ThreadRole old_role_;
  Executor* old_executor_;
};

// Announces that the current thread is about to wait. Every blocking wait of ours holds one.
class BlockingRegion {
 public:
  BlockingRegion();
  ~BlockingRegion();
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

  // OK: the thread may wait. FAILED_PRECONDITION on a polling thread; RESOURCE_EXHAUSTED when all
  // spare threads are taken.
  const absl::Status& status() const { return status_; }

 private:
  Executor* executor_ = nullptr;
  absl::Status status_;
};

struct ThreadPoolOptions {
  // Default: "gw-pool". Thread names are name-0, name-1, … (15 characters shown by the system).
  std::string name = "gw-pool";
  // Default: 0 = number of cores, at least 2. Tasks that run at once.
  size_t slot_count = 0;
  // Default: 256. Threads beyond slot_count while tasks block; bounds memory (stacks).
  size_t max_spare_count = 256;
  // Default: 65536. Tasks that wait; beyond it Post refuses, so that overload shows early.
  size_t max_queued_count = 65536;
  // Default: none. Runs first on every new thread (at::set_num_threads and the like).
  void (*on_thread_start)() = nullptr;
};

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(ThreadPoolOptions options);
  // Closes, runs what is queued, joins. Must not run on one of its own threads.
  ~ThreadPool() override;

  absl::Status Post(Task task) override;
  absl::Status EnterBlocking() override;
  void LeaveBlocking() override;

  // Refuses new tasks; what is queued still runs. Idempotent, doesn't block.
  void Close();

 private:
  void Run(size_t index);
  void SpawnIfNeededLocked() GW_REQUIRES(mu_);

  const ThreadPoolOptions options_;
  Mutex mu_;
  CondVar work_;
  std::deque<Task> queue_ GW_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ GW_GUARDED_BY(mu_);
  size_t active_ GW_GUARDED_BY(mu_) = 0;   // threads that run a task and are not blocked
  size_t blocked_ GW_GUARDED_BY(mu_) = 0;  // threads inside a BlockingRegion
  size_t idle_ GW_GUARDED_BY(mu_) = 0;     // threads that wait for work
  bool closed_ GW_GUARDED_BY(mu_) = false;
};

// Runs posted tasks one at a time, in order, on an executor. Copies share one queue.
class Strand final : public Executor {
 public:
  // `executor` must outlive all tasks.
  explicit Strand(Executor* executor);
  absl::Status Post(Task task) override;

 private:
  struct State;
  static void Drain(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Counts work in flight. Close it, then wait for what is still inside.
class Gate {
 public:
  // Keeps the gate's work counted until destroyed.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept : gate_(other.gate_) { other.gate_ = nullptr; }
    Pass& operator=(Pass&& other) noexcept;
    ~Pass() { Release(); }
    explicit operator bool() const { return gate_ != nullptr; }
    void Release();

   private:
    friend class Gate;
    explicit Pass(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  // An empty pass once the gate is closed.
  Pass TryEnter();
  void Close();
  // Waits until the gate is closed and nothing is inside. False: `timeout` passed first.
  bool Wait(absl::Duration timeout);

 private:
  Mutex mu_;
  CondVar drained_;
  size_t inside_ GW_GUARDED_BY(mu_) = 0;
  bool closed_ GW_GUARDED_BY(mu_) = false;
};

}  // namespace gradwire
