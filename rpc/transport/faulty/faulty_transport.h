// Any transport, with faults: what it carries is lost, doubled, overtaken or cut, as a seed
// decides.
//
//   FaultyTransport faulty(&real, /*seed=*/7);
//   faulty.SetRates(Direction::kOut, {.drop = 0.01, .duplicate = 0.01, .reorder = 0.01});
//   faulty.CutAfterMessages(Direction::kIn, Lane::kBulk, 3);
//   ... EXPECT_EQ(faulty.counts().cut, 1);              a fault must be seen to fire
//
// Directions:    kOut is what this side's handlers give, kIn what they get. One way can be lost
//                alone: SetRates(kIn, {.drop = 1}).
// Order:         each connection and direction has its own numbers, derived from the seed and from
//                how many connections were made before; so a run is repeatable where the order of
//                messages and dials is.
// Reordering:    a message is held back until the next one of its direction has passed. When none
//                comes it is lost with the connection.
// Last words:    after CloseAfterWrites the handler's message is neither lost, doubled nor held;
//                what was held back or still to be doubled gives way to it.
// Cuts:          close the connection on this side with UNAVAILABLE; the peer sees a cut. What was
//                handed out just before a cut of kOut may be lost; before a cut of kIn all was
//                seen.
// Thread-safety: all methods thread-safe, also while traffic flows.
// Lifetimes:     as in transport.h. `base` must outlive this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rpc/transport/transport.h"

namespace gradwire::rpc {

enum class Direction { kOut, kIn };

struct FaultRates {
  // Default: 0. Probabilities a message; at most one of the three happens to it.
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;
};

// Faults that fired.
struct FaultCounts {
  uint64_t passed = 0;  // messages that were neither lost nor held
  uint64_t dropped = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;  // were overtaken
  uint64_t cut = 0;        // connections
};

struct FaultyState;

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(Transport* base, uint64_t seed);
  ~FaultyTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override;
  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override;

  // From the next message on, for all connections.
  void SetRates(Direction direction, FaultRates rates);
  // Once: the connection that brings the `count`-th message (from now, over all connections of the
  // lane) is cut right after it; 0 cuts with the first message before it passes. A second call
  // replaces what has not fired.
  void CutAfterMessages(Direction direction, Lane lane, uint64_t count);
  // Once: the connection whose message brings the bytes that passed to `count_bytes` or above is
  // cut right after it. Messages are never torn.
  void CutAfterBytes(Direction direction, Lane lane, uint64_t count_bytes);

  FaultCounts counts() const;

 private:
  Transport* const base_;
  const std::shared_ptr<FaultyState> state_;
};

}  // namespace gradwire::rpc
