#include "rpc/transport/connection_set.h"

#include <set>
#include <utility>
#include <vector>

namespace gradwire::rpc {

ConnectionSet::Group ConnectionSet::NewGroup() {
  MutexLock lock(mu_);
  return ++last_group_;
}

uint64_t ConnectionSet::Add(Group group) {
  MutexLock lock(mu_);
  return AddLocked(group);
}

std::optional<uint64_t> ConnectionSet::TryAdd(Group group) {
  MutexLock lock(mu_);
  if (all_closed_ || closed_groups_.contains(group)) return std::nullopt;
  return AddLocked(group);
}

uint64_t ConnectionSet::AddLocked(Group group) {
  live_.emplace(++last_number_, Entry{group, {}});
  return last_number_;
}

void ConnectionSet::Started(uint64_t number, std::weak_ptr<Connection> connection) {
  MutexLock lock(mu_);
  const auto found = live_.find(number);
  if (found == live_.end()) return;
  found->second.connection = std::move(connection);
  changed_.NotifyAll();
}

void ConnectionSet::Ended(uint64_t number) {
  MutexLock lock(mu_);
  live_.erase(number);
  changed_.NotifyAll();
}

void ConnectionSet::CloseAndWait(Group group, const absl::Status& why) {
  CloseAndWait(/*all=*/false, group, why);
}

void ConnectionSet::CloseAllAndWait(const absl::Status& why) {
  CloseAndWait(/*all=*/true, kDialled, why);
}

void ConnectionSet::CloseAndWait(bool all, Group group, const absl::Status& why) {
  {
    MutexLock lock(mu_);
    if (all) {
      all_closed_ = true;
    } else {
      closed_groups_.insert(group);
    }
  }
  std::set<uint64_t> told;
  while (true) {
    std::vector<std::shared_ptr<Connection>> connections;
    {
      MutexLock lock(mu_);
      while (true) {
        bool any = false;
        for (auto& [number, entry] : live_) {
          if (!all && entry.group != group) continue;
          any = true;
          std::shared_ptr<Connection> connection = entry.connection.lock();
          if (connection == nullptr || !told.insert(number).second) continue;
          connections.push_back(std::move(connection));
        }
        if (!any) return;
        if (!connections.empty()) break;
        changed_.Wait(mu_);
      }
    }
    for (const auto& connection : connections) connection->Close(why);
  }
}

size_t ConnectionSet::size() {
  MutexLock lock(mu_);
  return live_.size();
}

}  // namespace gradwire::rpc
