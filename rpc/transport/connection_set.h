// The live connections of one transport: so that its end can close them and wait for them.
//
// Thread-safety: all methods thread-safe; no connection is called under the lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "rpc/base/mutex.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

class ConnectionSet {
 public:
  // What was made together ends together: a listener's connections, or the dialled ones.
  using Group = uint64_t;
  static constexpr Group kDialled = 0;
  // A group of its own for a listener.
  Group NewGroup();

  // A connection that will end. Give the number to Ended after its OnClosed has returned.
  uint64_t Add(Group group);
  // The same for a connection that a peer opens; none once the end of its group has begun.
  std::optional<uint64_t> TryAdd(Group group);
  // What to close; until then the end of the group waits.
  void Started(uint64_t number, std::weak_ptr<Connection> connection);
  void Ended(uint64_t number);

  // Closes the connections of a group, also those added meanwhile, and waits until all have ended.
  void CloseAndWait(Group group, const absl::Status& why);
  void CloseAllAndWait(const absl::Status& why);

  size_t size();

 private:
  struct Entry {
    Group group;
    std::weak_ptr<Connection> connection;
  };
  uint64_t AddLocked(Group group) GW_REQUIRES(mu_);
  void CloseAndWait(bool all, Group group, const absl::Status& why);

  Mutex mu_;
  CondVar changed_;
  uint64_t last_number_ GW_GUARDED_BY(mu_) = 0;
  Group last_group_ GW_GUARDED_BY(mu_) = kDialled;
  bool all_closed_ GW_GUARDED_BY(mu_) = false;
  std::set<Group> closed_groups_ GW_GUARDED_BY(mu_);
  std::map<uint64_t, Entry> live_ GW_GUARDED_BY(mu_);
};

}  // namespace gradwire::rpc
