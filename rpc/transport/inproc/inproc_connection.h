// One end of a connection inside the process. Internal to rpc/transport/inproc.
//
// Locks: each end has its own; the two are never held together. A message goes straight from the
// thread that pulled it into the other end's only slot; that end's polling thread takes it out,
// which completes the write, and shows it to the handler.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/inproc/inproc_loop.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

class InprocConnection final : public Connection,
                               public std::enable_shared_from_this<InprocConnection> {
 public:
  // `on_end` runs once, after OnClosed, if Open was called.
  InprocConnection(std::shared_ptr<InprocLoop> loop, Clock* clock, std::string peer_address,
                   std::function<void()> on_end);

  // From now on the handler hears of this end; it lives until OnClosed.
  void Open(std::shared_ptr<ConnectionHandler> handler);
  // The other end is there: messages may flow. On this end's loop.
  void Join(std::shared_ptr<InprocConnection> other);
  // Closes with `why` unless Join comes within `timeout`.
  void GiveUpAfter(absl::Duration timeout, absl::Status why);
  // The other end is over; what it sent before is delivered first.
  void PeerEnded();
  const std::shared_ptr<InprocLoop>& loop() const { return loop_; }

  void WantWrite() override;
  void Close(absl::Status why) override;
  void CloseAfterWrites(absl::Status why, absl::Duration linger) override;
  std::string peer_address() const override { return peer_address_; }

 private:
  // Pulls and hands over the next message; `pulling_` is ours.
  void Pull();
  void Receive(BufferList message);
  void Deliver();
  void OnWritten();
  void CloseLocked(absl::Status why) GW_REQUIRES(mu_);
  void EndSoonLocked() GW_REQUIRES(mu_);
  void End();

  const std::shared_ptr<InprocLoop> loop_;
  Clock* const clock_;
  const std::string peer_address_;
  std::function<void()> on_end_;

  Mutex mu_;
  std::shared_ptr<InprocConnection> self_ GW_GUARDED_BY(mu_);  // from Open to OnClosed
  std::shared_ptr<InprocConnection> other_ GW_GUARDED_BY(mu_);
  std::shared_ptr<ConnectionHandler> handler_ GW_GUARDED_BY(mu_);
  std::optional<BufferList> inbox_ GW_GUARDED_BY(mu_);
  bool wanted_ GW_GUARDED_BY(mu_) = false;
  bool pulling_ GW_GUARDED_BY(mu_) = false;
  bool writing_ GW_GUARDED_BY(mu_) = false;    // our message is in the other end's slot
  bool closing_ GW_GUARDED_BY(mu_) = false;    // CloseAfterWrites was called
  bool last_pull_ GW_GUARDED_BY(mu_) = false;  // … and its one more message was asked for
  bool closed_ GW_GUARDED_BY(mu_) = false;     // nothing is delivered or pulled any more
  bool ending_ GW_GUARDED_BY(mu_) = false;     // End is queued
  absl::Status why_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
