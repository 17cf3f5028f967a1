// One completion queue and the thread that polls it. Internal to rpc/transport/grpc.
#pragma once

#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "rpc/transport/grpc/tsan_handoff.h"

namespace gradwire::rpc {

// What a completion queue gives back. Owned by whoever started the operation, alive until Done.
class PollTag {
 public:
  virtual ~PollTag() = default;
  virtual void Done(bool ok) = 0;
};

class Poller {
 public:
  Poller(std::unique_ptr<grpc::CompletionQueue> queue, std::string thread_name,
         absl::Duration spin);
  // Shuts the queue down and waits until everything in it has been given back.
  ~Poller();

  grpc::CompletionQueue* queue() { return queue_.get(); }
  bool on_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void Run(const std::string& name);

  const std::unique_ptr<grpc::CompletionQueue> queue_;
  const absl::Duration spin_;
  std::thread thread_;
};

}  // namespace gradwire::rpc
