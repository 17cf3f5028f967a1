// One bulk connection: a hello that names and proves its session, then chunks.
//
// The session's dialler opens it. Lifetimes and threads as in control_link.h.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rpc/agent/node_impl.h"

namespace gradwire::rpc {

class BulkLink final : public ConnectionHandler, public std::enable_shared_from_this<BulkLink> {
 public:
  // A link that opens a lane for `session`.
  BulkLink(std::shared_ptr<NodeImpl> node, std::shared_ptr<Session> session);
  // A link that waits for a hello.
  explicit BulkLink(std::shared_ptr<NodeImpl> node);

  void Start(std::shared_ptr<Connection> connection);

  bool NextMessage(BufferList& out) override;
  void OnMessage(BufferList message) override;
  void OnClosed(absl::Status why) override;

 private:
  enum class State { kHello, kReady, kClosed };

  void OnHello(const BulkHello& hello);
  void OnReady(const BulkReady& ready);
  void CloseConnection(const absl::Status& why);

  const std::shared_ptr<NodeImpl> node_;
  const bool dialler_;
  BulkFrameView frame_;  // polling thread only

  Mutex mu_;
  State state_ GW_GUARDED_BY(mu_) = State::kHello;
  std::shared_ptr<Connection> connection_ GW_GUARDED_BY(mu_);
  std::shared_ptr<Session> session_ GW_GUARDED_BY(mu_);
  uint64_t link_ GW_GUARDED_BY(mu_) = 0;
  std::optional<BulkHello> hello_ GW_GUARDED_BY(mu_);  // to write
  std::optional<BulkReady> ready_ GW_GUARDED_BY(mu_);  // to write
  bool pending_ GW_GUARDED_BY(mu_) = true;
  TimerId timer_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
