// PushLedger: numbers a client's pushes to one table, and knows which are still unanswered.
//
// Thread-safety: all methods thread-safe.
#pragma once

#include <cstdint>
#include <set>

#include "rpc/base/mutex.h"

namespace gradwire::worker {

class PushLedger {
 public:
  // The number of the next push: 1, 2, …
  uint64_t Begin() {
    MutexLock lock(mu_);
    open_.insert(++last_);
    return last_;
  }
  // Its answer is here, whatever it was.
  void End(uint64_t sequence) {
    MutexLock lock(mu_);
    open_.erase(sequence);
  }
  // The smallest number that is unanswered; what the server may forget lies below.
  uint64_t finished_below() const {
    MutexLock lock(mu_);
    return open_.empty() ? last_ + 1 : *open_.begin();
  }
  // The last push that may not have been applied yet; 0: none. What a pull has to wait for.
  uint64_t after() const {
    MutexLock lock(mu_);
    return open_.empty() ? 0 : last_;
  }

 private:
  mutable Mutex mu_;
  uint64_t last_ GW_GUARDED_BY(mu_) = 0;
  std::set<uint64_t> open_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::worker
