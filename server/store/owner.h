// Owner: runs the work on one owner's rows and blocks, one task at a time, in the order it came.
//
// A short task runs on the thread that brings it if nobody else works here, which saves the hand-
// over; everything else runs on the owner's own thread. Nothing of the owner's needs a lock.
//
// Thread-safety: all methods thread-safe. Run may be called from a task of the same owner; it runs
//                later then.
// Limits:        max_queued_count -> RESOURCE_EXHAUSTED.
// Life:          Close() refuses new tasks; the destructor does so, runs what is queued, and joins.
//                Never destroy it on its own thread.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "rpc/base/executor.h"
#include "rpc/base/mutex.h"

namespace gradwire::server {

enum class TaskSize {
  kShort,  // some ten microseconds: may run on a polling thread
  kLong,
};

class Owner {
 public:
  // Default: 65 536 tasks, as many as calls may wait at one peer.
  static constexpr size_t kMaxQueuedCount = 65536;

  explicit Owner(std::string thread_name);
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // RESOURCE_EXHAUSTED: too many wait; CANCELLED: closed. Then the task was destroyed unrun.
  absl::Status Run(TaskSize size, Task task);

  void Close();

 private:
  void Loop(const std::string& thread_name);

  Mutex mu_;
  CondVar work_;
  std::deque<Task> queue_ GW_GUARDED_BY(mu_);
  bool busy_ GW_GUARDED_BY(mu_) = false;  // some thread runs a task
  bool closed_ GW_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace gradwire::server
