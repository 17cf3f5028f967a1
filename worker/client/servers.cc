#include "worker/client/servers.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "rpc/base/clock.h"

namespace gradwire::worker {

absl::StatusOr<std::shared_ptr<Servers>> Servers::Connect(rpc::Agent* agent,
                                                          const std::vector<std::string>& names,
                                                          absl::Duration timeout) {
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat("parameter server ", *twice, " is named twice"));
  }
  GW_ASSIGN_OR_RETURN(server::ShardMap map, server::ShardMap::Even(names.size()));
  Clock& clock = Clock::Real();
  const absl::Time start = clock.Now();
  std::vector<rpc::Peer> peers;
  for (const std::string& name : names) {
    while (true) {
      absl::StatusOr<rpc::Peer> peer = agent->Connect(name);
      if (peer.ok()) {
        peers.push_back(*std::move(peer));
        break;
      }
      // It may still be starting; its own look-up waits, so that this is no busy loop.
      const bool may_come = absl::IsNotFound(peer.status()) || absl::IsUnavailable(peer.status());
      if (!may_come || clock.Now() - start >= timeout) {
        return WithContext(
            peer.status(),
            absl::StrCat("waiting for parameter server ", name, " (",
                         absl::FormatDuration(absl::Trunc(clock.Now() - start, absl::Seconds(1))),
                         " of ", absl::StrJoin(names, ", "), "); is it started?"));
      }
    }
  }
  return std::shared_ptr<Servers>(new Servers(std::move(peers), std::move(map)));
}

}  // namespace gradwire::worker
