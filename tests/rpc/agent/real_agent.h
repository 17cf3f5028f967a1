// One agent over real sockets, for tests: its own transport, threads and memory.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/agent/node.h"
#include "rpc/base/buffer_pool.h"
#include "rpc/base/future.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc::testing {

class RealAgent {
 public:
  RealAgent(std::string name, std::vector<BoundFunction> functions, AgentLimits limits = {},
            std::string token = "", Transport* transport = nullptr)
      : own_transport_(transport == nullptr ? MakeGrpcTransport({.spin = limits.spin}) : nullptr),
        executor_({.name = name, .slot_count = 2}),
        pool_(Clock::Real()) {
    static std::atomic<int64_t> last{Clock::Real().WallNowNanos()};
    NodeOptions options;
    options.name = std::move(name);
    options.incarnation = Incarnation{static_cast<uint64_t>(++last)};
    options.limits = limits;
    options.token = Secret(std::move(token));
    options.functions = *FunctionTable::Build(std::move(functions));
    options.transport = transport == nullptr ? own_transport_.get() : transport;
    options.clock = &Clock::Real();
    options.rng = &Rng::Secure();
    options.executor = &executor_;
    options.pool = &pool_;
    node_ = *Node::Create(std::move(options));
  }

  std::string Listen(const std::string& address = "127.0.0.1:0") {
    return node_->Listen(address).value_or("");
  }
  Node& node() { return *node_; }
  BufferPool& pool() { return pool_; }

  Future<std::string> Async(const std::string& to, const std::string& function, Payload payload,
                            CallOptions options = {}) {
    auto promise = std::make_shared<Promise<std::string>>();
    Future<std::string> future = promise->future();
    const CallHandle handle =
        node_->StartCall(to, node_->Intern(function, "string(string)"), std::move(payload), options,
                         [promise](absl::StatusOr<ReceivedPayload> outcome) {
                           if (outcome.ok()) {
                             promise->Set(std::string(AsText(outcome->head.bytes())));
                           } else {
                             promise->Set(outcome.status());
                           }
                         });
    promise->SetWaitDriver(handle.wait_driver());
    return future;
  }
  absl::StatusOr<std::string> Call(const std::string& to, const std::string& function,
                                   const std::string& text, CallOptions options = {}) {
    Payload payload;
    payload.head = Buffer::FromString(text);
    return Async(to, function, std::move(payload), options).Wait(absl::Seconds(60));
  }

 private:
  std::unique_ptr<Transport> own_transport_;
  ThreadPool executor_;
  BufferPool pool_;
  std::unique_ptr<Node> node_;
};

}  // namespace gradwire::rpc::testing
