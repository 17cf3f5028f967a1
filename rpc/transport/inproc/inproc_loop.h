// One polling thread and the events that wait for it. Internal to rpc/transport/inproc.
//
// Limits: a connection has at most one message, one "written" and two ends waiting here, and no
// event waits for another one; so what is queued is bounded by the number of connections.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "rpc/base/mutex.h"

namespace gradwire::rpc {

class InprocLoop {
 public:
  explicit InprocLoop(const std::string& thread_name);
  ~InprocLoop();

  // Runs `event` on the thread, in order. False after Stop: it will not run.
  bool Post(std::function<void()> event);
  // Runs what is queued, then ends the thread. Never on the thread itself.
  void Stop();

 private:
  void Run();

  Mutex mu_;
  CondVar work_;
  std::deque<std::function<void()>> events_ GW_GUARDED_BY(mu_);
  bool waiting_ GW_GUARDED_BY(mu_) = false;
  bool stopped_ GW_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace gradwire::rpc
