// The transport over real sockets: gRPC bidirectional streams of frames.
//
// Addresses:     "host:port" with an IPv4 address, an IPv6 address in brackets, or a name; port 0
//                when listening = any free one.
// Channels:      every Dial makes a TCP connection of its own, so that lanes never share one.
// Threads:       one polling thread a lane for dialled connections and one a lane and Listener for
//                accepted ones. Completion queues only: the callback API of gRPC 1.51 stalls for
//                70 ms after a second of idleness. Writes start on the thread that calls WantWrite.
// Waiting:       after an event a polling thread polls for `spin`, then blocks. It stops polling
//                after 8 fruitless times, until events come quickly again, and rests from it after
//                it was preempted (spin_policy.h): other work needs the core more. A thread that
//                waits for a result does the polling thread's work meanwhile (poller.h).
// Environment:   a program that links this sets GRPC_POLL_STRATEGY=poll before main, unless it is
//                set; grpc_transport.cc says why.
// Strangers:     whoever does not speak HTTP/2 within handshake_timeout, or opens no stream within
//                max_connection_idle, is disconnected by gRPC; what a stream says is the session's
//                affair.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

struct GrpcTransportOptions {
  // Default: 30 us. 0: never poll, always block.
  absl::Duration spin = absl::Microseconds(30);
  // Default: 5 s. From the TCP connection to HTTP/2's settings.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // Default: 1 s. A connection without a stream, new or left over, is closed after once to twice
  // this. Ours open theirs at once and end with it.
  absl::Duration max_connection_idle = absl::Seconds(1);
  // Default: 20 s. A ping on a silent connection; no answer for 10 s cuts it.
  absl::Duration keepalive = absl::Seconds(20);
  // Default: 8. Streams a connection; ours use one.
  int max_concurrent_streams = 8;
  // Default: 1 GiB. What all accepted connections of a listener may hold in messages that arrive or
  // have not been let go; beyond it gRPC stops reading, then drops connections.
  size_t max_unread_bytes = size_t{1} << 30;
  // Default: the process's clock. For the limits on dialling and lingering.
  Clock* clock = nullptr;
};

std::unique_ptr<Transport> MakeGrpcTransport(const GrpcTransportOptions& options = {});

}  // namespace gradwire::rpc
