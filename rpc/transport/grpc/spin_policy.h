// When a polling thread may poll instead of block. Internal to rpc/transport/grpc.
//
// Polling saves a wake-up (25-50 us) when the next event comes soon, and takes the core from
// whoever would bring it when there is other work. So it stops after kMaxFruitless tries without an
// event, until one came so quickly that polling would have caught it; and after an involuntary
// context switch it rests.
//
// Thread-safety: none; one thread's own.
#pragma once

#include <algorithm>
#include <chrono>

namespace gradwire::rpc {

class SpinPolicy {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  static constexpr int kMaxFruitless = 8;
  // The rest after a preemption. The first one; doubled with each up to the longest; back to the
  // first one after as long without a preemption.
  static constexpr Duration kShortestRest = std::chrono::milliseconds(10);
  static constexpr Duration kLongestRest = std::chrono::seconds(1);

  // `spin`: how long to poll after an event; 0: never.
  explicit SpinPolicy(Duration spin) : spin_(spin) {}

  Duration spin() const { return spin_; }
  bool enabled() const { return spin_ > Duration::zero(); }

  // Whether to poll at `now` for what is expected soon.
  bool MayPoll(Time now) const {
    return enabled() && now >= rests_until_ && fruitless_ < kMaxFruitless;
  }

  // An event came at `now` to a thread that blocked since `blocked_at`: poll for the next one?
  bool ShouldPoll(Time blocked_at, Time now) {
    if (!enabled() || now < rests_until_) return false;
    if (fruitless_ < kMaxFruitless) return true;
    if (now - blocked_at > 4 * spin_) return false;
    fruitless_ = kMaxFruitless - 1;
    return true;
  }

  // Polling ended at `now`, with an event or without, preempted or not.
  void Polled(Time now, bool any, bool preempted) {
    if (preempted) {
      rests_until_ = now + rest_;
      well_since_ = rests_until_;
      rest_ = std::min(2 * rest_, kLongestRest);
      return;
    }
    if (now - well_since_ > rest_) rest_ = kShortestRest;
    fruitless_ = any ? 0 : fruitless_ + 1;
  }

 private:
  const Duration spin_;
  int fruitless_ = 0;
  Duration rest_ = kShortestRest;
  Time rests_until_;
  Time well_since_;
};

}  // namespace gradwire::rpc
