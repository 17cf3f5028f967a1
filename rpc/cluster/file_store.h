// The rendezvous in a folder that all processes reach: nobody serves anything.
//
//   members       a World (world_text.h), replaced in one step
//   lock          held by whoever changes `members`
//   alive.N       held by the member with incarnation N as long as it lives; the system lets go of
//                 it when the process ends, however it ends
//
// A lock that nobody holds is how the dead are told from the living, so nothing needs a clock or
// cleaning up: a folder that a killed job left behind works for the next one.
//
// Ownership:     holds the alive locks of those who joined through it, until they leave or it goes.
// Thread-safety: all methods thread-safe.
// Threads:       everything that touches files runs on `executor`; waiting is polling by `clock`.
// Incarnations:  wall-clock nanoseconds, raised above all that the folder has seen.
// Errors:        besides RendezvousStore's: DATA_LOSS `members` can't be read, with what to do;
//                UNAVAILABLE the lock stayed held; and those of the file system.
// Needs:         a file system whose locks work between the machines (NFSv4 does).
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "rpc/base/clock.h"
#include "rpc/base/executor.h"
#include "rpc/base/fs.h"
#include "rpc/cluster/rendezvous.h"

namespace gradwire::rpc {

struct FileStoreOptions {
  // Required. An absolute path; the folder is made if it is missing.
  std::string folder = {};
  // Default: 100 ms. How often one who waits looks again.
  absl::Duration poll = absl::Milliseconds(100);
  // Default: 10 ms. How often one tries who finds the lock held.
  absl::Duration lock_poll = absl::Milliseconds(10);
  // Default: 10 s. How long one tries; a change takes milliseconds.
  absl::Duration lock_timeout = absl::Seconds(10);
  // Default: 10 min. The longest anybody waits for anything.
  absl::Duration max_timeout = absl::Minutes(10);
};

class FileStore final : public RendezvousStore {
 public:
  // The seams outlive the store.
  FileStore(FileSystem* fs, Clock* clock, Executor* executor, FileStoreOptions options);
  // What waits ends with UNAVAILABLE. Members that didn't leave count as dead from now on.
  ~FileStore() override;

  Future<Membership> Join(JoinRequest request) override;
  Future<Member> Resolve(const std::string& name, absl::Duration timeout) override;
  Future<Member> ResolveRank(int rank, absl::Duration timeout) override;
  Future<void> Leave(const std::string& name, Incarnation incarnation) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gradwire::rpc
