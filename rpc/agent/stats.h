// What an agent counts. Plain relaxed atomics: independent totals that publish nothing else.
#pragma once

#include <atomic>
#include <cstdint>

namespace gradwire::rpc {

struct AgentStats {
  using Count = std::atomic<uint64_t>;
  Count calls_started{0};   // by this agent
  Count calls_ended{0};     // of those, with whatever outcome
  Count calls_received{0};  // requests taken in
  Count handlers_started{0};
  Count replies_sent{0};
  Count calls_refused{0};  // unknown function, limit, expired
  Count duplicate_items{0};
  Count gaps{0};     // frames that arrived before their predecessors
  Count resends{0};  // times that items were sent again
  Count chunk_restarts{0};
  Count corrupt_chunks{0};
  Count sessions_opened{0};
  Count sessions_resumed{0};
  Count sessions_buried{0};
  Count hellos_refused{0};
};

}  // namespace gradwire::rpc
