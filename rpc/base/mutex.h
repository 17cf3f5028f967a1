// Annotated mutex, lock and condition variable over the standard ones.
//
// Why not absl::Mutex: ThreadSanitizer does not see the prebuilt one. clang checks the annotations
// (-Wthread-safety is fatal).
//
//   Mutex mu_;
//   int n_ GW_GUARDED_BY(mu_);
//   void F() GW_EXCLUDES(mu_) { MutexLock lock(mu_); ++n_; }
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

#if defined(__clang__)
#define GW_TSA_(x) __attribute__((x))
#else
#define GW_TSA_(x)
#endif

#define GW_CAPABILITY(x) GW_TSA_(capability(x))
#define GW_SCOPED_CAPABILITY GW_TSA_(scoped_lockable)
#define GW_GUARDED_BY(x) GW_TSA_(guarded_by(x))
#define GW_PT_GUARDED_BY(x) GW_TSA_(pt_guarded_by(x))
#define GW_REQUIRES(...) GW_TSA_(requires_capability(__VA_ARGS__))
#define GW_EXCLUDES(...) GW_TSA_(locks_excluded(__VA_ARGS__))
#define GW_ACQUIRE(...) GW_TSA_(acquire_capability(__VA_ARGS__))
#define GW_RELEASE(...) GW_TSA_(release_capability(__VA_ARGS__))
#define GW_TRY_ACQUIRE(...) GW_TSA_(try_acquire_capability(__VA_ARGS__))
#define GW_ACQUIRED_AFTER(...) GW_TSA_(acquired_after(__VA_ARGS__))
#define GW_NO_THREAD_SAFETY_ANALYSIS GW_TSA_(no_thread_safety_analysis)

namespace gradwire {

class GW_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() GW_ACQUIRE() { mu_.lock(); }
  void Unlock() GW_RELEASE() { mu_.unlock(); }
  bool TryLock() GW_TRY_ACQUIRE(true) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

// Holds a mutex for a scope; may be released early and taken again.
class GW_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) GW_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() GW_RELEASE() {
    if (held_) mu_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() GW_RELEASE() {
    mu_.Unlock();
    held_ = false;
  }
  void Lock() GW_ACQUIRE() {
    mu_.Lock();
    held_ = true;
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

// Condition variable for Mutex. Wakes may be spurious: wait in a loop over the condition.
// Durations are real time: code that must run in the simulation waits through Clock and Executor.
class CondVar {
 public:
  void Wait(Mutex& mu) GW_REQUIRES(mu);
  // False when `timeout` passed first.
  bool WaitFor(Mutex& mu, absl::Duration timeout) GW_REQUIRES(mu);
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace gradwire
