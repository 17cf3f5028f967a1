// Transport: message-preserving conversations between processes, which may break at any time.
//
// The session above (rpc/agent) needs only this of whatever lies below: gRPC streams, memory of one
// process, the simulation, and any of them behind the faulty wrapper.
//
// Contract:      A Connection carries whole messages both ways. While it lives, messages arrive
//                whole and unaltered, each at most once and in order on the real transports; `sim`
//                and `faulty` may lose, repeat and reorder them, and the session copes with that.
//                After OnClosed nothing more arrives.
// Writing:       pulled, not pushed. WantWrite() says "I have something"; the transport asks
//                NextMessage() when it can take a message, on the calling thread if it can at once.
//                So what gathers while a write is in flight leaves as one message, and times in a
//                message are computed when it is written.
// Threads:       OnMessage and OnClosed run on a polling thread (ThreadRole::kPolling, or kDriving
//                where a waiting thread does its work; the event loop in the simulation), one at a
//                time for one connection. NextMessage runs on any thread that called WantWrite, or
//                on a polling thread, one at a time for one connection. No lock of the transport is
//                held around any of them; a handler may call WantWrite and Close from inside them.
//                The next message is read only after OnMessage returned: that is the back-pressure.
// Lifetimes:     the transport holds the handler until OnClosed has returned, then drops it. The
//                handler may hold the connection. Destroying a Transport or Listener closes what it
//                made and waits for the last OnClosed; never do that on a polling thread.
// Errors:        UNAVAILABLE cut, refused, unreachable; RESOURCE_EXHAUSTED message above the limit;
//                CANCELLED closed on this side with that status.
// Limits:        max_message_bytes a message, both ways.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/buffer.h"
#include "rpc/base/wait_driver.h"

namespace gradwire::rpc {

// What a connection is for. Each lane of a session is a connection of its own, so that small
// messages never wait behind bulk bytes.
enum class Lane { kControl, kBulk };

// Name of a lane for messages: "control" or "bulk".
const char* LaneName(Lane lane);

// Largest message of any lane: a bulk chunk (2 MiB at most) or a frame of coalesced items and its
// head.
inline constexpr size_t kMaxMessageBytes = (4u << 20) + (64u << 10);

class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  // Fills `out` (empty on entry) with the next message; false when there is none. After false the
  // transport asks again only after another WantWrite().
  virtual bool NextMessage(BufferList& out) = 0;
  virtual void OnMessage(BufferList message) = 0;
  // Once, as the last call. `why` is never OK.
  virtual void OnClosed(absl::Status why) = 0;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Thread-safe, never blocks, cheap when a write is in flight.
  virtual void WantWrite() = 0;
  // Ends the conversation; what NextMessage handed out before may be lost. Idempotent, thread-safe,
  // doesn't block; OnClosed(why) follows on a polling thread.
  virtual void Close(absl::Status why) = 0;
  // Like Close, but a message that NextMessage already handed out, and one more NextMessage if
  // there is one, are delivered first (within `linger`). For a last word ("wrong token") before the
  // end.
  virtual void CloseAfterWrites(absl::Status why, absl::Duration linger) = 0;
  // Address of the other end, for messages; comes from the network, so escape it when logged.
  virtual std::string peer_address() const = 0;
  // For a thread that waits for something this connection brings. Null: it just sleeps.
  virtual std::shared_ptr<WaitDriver> wait_driver() { return nullptr; }
};

// Decides about a connection that a peer has opened. Runs on a polling thread. Null refuses it.
using AcceptFn =
    std::function<std::shared_ptr<ConnectionHandler>(std::shared_ptr<Connection>, Lane)>;

class Listener {
 public:
  virtual ~Listener() = default;
  // Where it listens, with the real port: "127.0.0.1:40211", "[::1]:40211", "sim:server0".
  virtual std::string address() const = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Starts to accept on `address` ("host:port", port 0 = any free one). INVALID_ARGUMENT: not an
  // address; UNAVAILABLE naming the address: in use or not ours.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           AcceptFn accept) = 0;

  // Opens a connection. Returns at once; a failure arrives as OnClosed (also for a malformed
  // address). Gives up after `timeout`. WantWrite may be called at once.
  virtual std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                           std::shared_ptr<ConnectionHandler> handler,
                                           absl::Duration timeout) = 0;
};

}  // namespace gradwire::rpc
