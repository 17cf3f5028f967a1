// Every size, count and time that bounds what an agent does, with its reason.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace gradwire::rpc {

struct AgentLimits {
  // ---- calls ----
  // Default: 60 s. Deadline of a call that names none. No call is without one.
  absl::Duration default_timeout = absl::Seconds(60);
  // Default: 24 h. Longest deadline; longer ones are cut to it, so that nothing is remembered for
  // ever.
  absl::Duration max_timeout = absl::Hours(24);
  // Default: 256. Calls of one peer that were admitted but whose handler has not started. Bounds
  // the queue that one peer can build here.
  uint64_t call_window = 256;
  // Default: 64. The same for nested calls, so that callers that wait for each other go on.
  uint64_t nested_call_window = 64;
  // Default: 4096. Handlers of one peer that run at once (asynchronous ones free their thread and
  // go on counting). Beyond it calls wait unstarted.
  uint64_t max_running_count = 4096;
  // Default: 65536. Calls that wait on this side for the connection or for credit; then
  // RESOURCE_EXHAUSTED.
  size_t max_waiting_count = 65536;
  // Default: 65536. Functions that one session may name in one direction; each costs about 100
  // bytes.
  uint32_t max_function_count = 65536;

  // ---- bytes ----
  // Default: 64 KiB. Arguments or result up to this travel in the control lane.
  size_t inline_bytes = 64u << 10;
  // Default: 512 KiB. A frame of coalesced items is closed above this: latency of what queues
  // behind it.
  size_t frame_bytes = 512u << 10;
  // Default: 1 MiB. A chunk of the bulk lane (best of 64 KiB … 16 MiB when measured).
  size_t chunk_bytes = 1u << 20;
  // Default: 2 GiB. One tensor, or one head.
  uint64_t max_tensor_bytes = uint64_t{2} << 30;
  // Default: 64 MiB. Bytes of request transfers sent beyond what the receiver acknowledged.
  uint64_t transfer_window_bytes = uint64_t{64} << 20;
  // Default: 4 GiB. Bytes of large arguments of one peer held here at once; beyond it the peer is
  // slowed down. One tensor up to max_tensor_bytes is always admitted.
  uint64_t max_staged_bytes = uint64_t{4} << 30;
  // Default: 4 GiB. Results kept for one peer until it has them; beyond it new calls are refused.
  uint64_t max_kept_bytes = uint64_t{4} << 30;

  // ---- connection ----
  // Default: 5 s. From dialling a connection to the end of the hello; and from a TCP connection
  // that comes to its first words.
  absl::Duration handshake_timeout = absl::Seconds(5);
  // Default: 2.5 s. The same where a connection was accepted, from its stream on. A listener lets a
  // connection without a stream stay for up to 2 s more: together, strangers are gone within 5 s.
  absl::Duration hello_timeout = absl::Milliseconds(2500);
  // Default: 5 s. How long a session without peer is tried to be reached before its calls fail.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Default: 5 s. How long a session that lost its connection may be resumed.
  absl::Duration resume_window = absl::Seconds(5);
  // Default: 1 s. A connection that is otherwise silent carries a sign of life this often.
  absl::Duration heartbeat = absl::Seconds(1);
  // Default: 5 s. A connection without any sign of life for this long is cut.
  absl::Duration liveness_timeout = absl::Seconds(5);
  // Default: 50 ms, 1 s. Waiting time between two attempts to dial, doubled from the first to the
  // second.
  absl::Duration dial_backoff_min = absl::Milliseconds(50);
  absl::Duration dial_backoff_max = absl::Seconds(1);
  // Default: 1 s. Items that nobody acknowledged for this long are sent again. Real transports lose
  // nothing while a connection lives, so this is a second line there; lossy ones set it low.
  absl::Duration resend_timeout = absl::Seconds(1);
  // Default: 10 ms. An acknowledgement waits this long for an item to travel with.
  absl::Duration ack_delay = absl::Milliseconds(10);
  // Default: 64. … or for this many items.
  uint64_t ack_item_count = 64;
  // Default: 1024. Session ids remembered as buried, so that they never resume.
  size_t max_buried_count = 1024;
  // Default: 1024. Sessions at once.
  size_t max_session_count = 1024;
  // Default: 256. Connections at once that have not finished their hello.
  size_t max_pending_hello_count = 256;

  // Default: 10 s. How long destroying a Node waits for its connections to end.
  absl::Duration join_timeout = absl::Seconds(10);

  // Default: 30 us. How long who waits for the wire polls before it sleeps, where cores are free.
  // 0: never.
  absl::Duration spin = absl::Microseconds(30);
};

}  // namespace gradwire::rpc
