// Gathering: workers tell rank 0 that they have trained; rank 0 waits for all, or for their end.
//
// Thread-safety: all methods thread-safe.
#pragma once

#include <set>

#include "absl/status/status.h"
#include "rpc/agent.h"
#include "rpc/base/mutex.h"

namespace gradwire::worker {

class Gathering {
 public:
  explicit Gathering(int world) : world_(world) {}

  // Before the agent starts. This object must outlive it.
  void Bind(rpc::Registry& functions);

  // Rank 0: returns when every other worker has said that it is done, or is gone, which is logged.
  // Others: tell rank 0, as long as it is there.
  absl::Status Meet(rpc::Agent& agent, int rank);

 private:
  absl::Status WaitForAll(rpc::Agent& agent);

  const int world_;
  Mutex mu_;
  CondVar changed_;
  std::set<int> done_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::worker
