// One control connection: the hello first, then the frames of a session.
//
// States: the dialler  kHello -> kReady -> kClosed
//         the acceptor kHello -> kProof -> kReady -> kClosed
// Thread-safety: as ConnectionHandler says. Its lock is taken before no other of ours.
// Lifetimes: held by the transport until closed; holds the connection, the session and (weakly) the
// node.
#pragma once

#include <memory>
#include <optional>

#include "rpc/agent/handshake.h"
#include "rpc/agent/node_impl.h"

namespace gradwire::rpc {

class ControlLink final : public ConnectionHandler,
                          public std::enable_shared_from_this<ControlLink> {
 public:
  // A link that says `hello` to carry `session`. Give it its connection with Start().
  ControlLink(std::shared_ptr<NodeImpl> node, std::shared_ptr<Session> session, Hello hello);
  // A link that waits for a hello.
  explicit ControlLink(std::shared_ptr<NodeImpl> node);

  void Start(std::shared_ptr<Connection> connection);

  bool NextMessage(BufferList& out) override;
  void OnMessage(BufferList message) override;
  void OnClosed(absl::Status why) override;

 private:
  enum class State { kHello, kProof, kReady, kClosed };

  void OnHello(const Hello& hello);
  void OnHelloReply(const HelloReply& reply);
  void OnHelloDone(const HelloDone& done);
  void OnHelloGoodbye(const Goodbye& goodbye);
  void Refuse(const absl::Status& why);
  void CloseConnection(const absl::Status& why);
  void WriteDueLocked(BufferList& out) GW_REQUIRES(mu_);

  const std::shared_ptr<NodeImpl> node_;
  const bool dialler_;
  FrameView frame_;  // polling thread only; kept for its memory

  Mutex mu_;
  State state_ GW_GUARDED_BY(mu_) = State::kHello;
  std::shared_ptr<Connection> connection_ GW_GUARDED_BY(mu_);
  std::shared_ptr<Session> session_ GW_GUARDED_BY(mu_);
  uint64_t link_ GW_GUARDED_BY(mu_) = 0;
  Hello hello_ GW_GUARDED_BY(mu_);
  HelloReply reply_ GW_GUARDED_BY(mu_);
  // Which message of the hello waits to be written.
  enum class Due { kNothing, kHello, kReply, kDone, kGoodbye };
  Due due_ GW_GUARDED_BY(mu_) = Due::kNothing;
  bool confirmed_ GW_GUARDED_BY(mu_) = false;  // dialler: the peer has our proof
  absl::Time done_written_ GW_GUARDED_BY(mu_) = absl::InfinitePast();
  std::optional<absl::Status> refused_ GW_GUARDED_BY(mu_);
  std::optional<Incarnation> refused_by_ GW_GUARDED_BY(mu_);
  bool pending_ GW_GUARDED_BY(mu_) = true;  // counted as a pending hello
  TimerId timer_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
