// A simulated network of simulated processes: the real code above runs on it with virtual time, and
// a seed decides everything that happens.
//
//   SimLoop loop;
//   SimNetwork network(&loop, seed);
//   SimProcess* a = network.AddProcess("a");   // its clock, executor, transport go to the code
//   network.faults().loss = 0.01;
//
// Faults:        delay, loss, duplication, reordering, refused dials: probabilities, for all links
//                or for one direction and lane; cut, half-open, partition, pause and kill: by name,
//                when called.
// Order:         within a connection messages keep their order except those that `reorder` picks.
// Trace:         a hash over every delivery (time, ends, lane, size, content): equal for equal
//                seeds.
// Listeners:     a destroyed one ends its connections inside its destructor; nothing can be waited
//                for in here.
// Thread-safety: none; all on the loop's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rpc/base/rng.h"
#include "rpc/base/sim.h"
#include "rpc/transport/transport.h"

namespace gradwire::rpc {

struct SimFaults {
  // Default: 20 us to 200 us. Time on the wire, uniform.
  absl::Duration delay_min = absl::Microseconds(20);
  absl::Duration delay_max = absl::Microseconds(200);
  // Default: 5 us. A connection takes the next message this long after the last one.
  absl::Duration write_time = absl::Microseconds(5);
  // Default: 0. Probabilities a message.
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  // Default: 0. Probability that a dial fails.
  double dial_failure = 0;
};

class SimNetwork;
class SimConnection;

// One simulated process: everything that runs in it stops when it is paused and is gone when it is
// killed.
class SimProcess {
 public:
  const std::string& name() const { return name_; }
  Clock* clock();
  Executor* executor();
  Transport* transport();
  Rng* rng();
  // "sim:NAME"; what Listen takes and peers dial.
  std::string address() const { return "sim:" + name_; }
  bool alive() const { return alive_; }
  bool paused() const { return paused_; }

  ~SimProcess();

 private:
  friend class SimNetwork;
  friend class SimConnection;
  class ProcessClock;
  class ProcessExecutor;
  class ProcessTransport;
  class ProcessListener;

  SimProcess(SimNetwork* network, std::string name, uint64_t seed);
  // Runs `event` now, later if the process is paused, never if it is dead.
  void Run(std::function<void()> event);

  SimNetwork* const network_;
  const std::string name_;
  bool alive_ = true;
  bool paused_ = false;
  std::deque<std::function<void()>> held_;
  SeededRng rng_;
  AcceptFn accept_;
  std::unique_ptr<ProcessClock> clock_;
  std::unique_ptr<ProcessExecutor> executor_;
  std::unique_ptr<ProcessTransport> transport_;
};

class SimNetwork {
 public:
  SimNetwork(SimLoop* loop, uint64_t seed);
  ~SimNetwork();

  SimLoop* loop() { return loop_; }
  // Of all links that have none of their own.
  SimFaults& faults() { return faults_; }
  // Of what `from` sends to `to` on a lane, dials included; starts as a copy of faults().
  SimFaults& LinkFaults(const std::string& from, const std::string& to, Lane lane);

  // A process by that name; a killed one of the same name is replaced (its object stays valid).
  SimProcess* AddProcess(const std::string& name);

  // Ends all connections between two processes; both learn of it.
  void Cut(const std::string& a, const std::string& b);
  // … nobody learns of it: messages vanish both ways.
  void CutSilently(const std::string& a, const std::string& b);
  // … only `learns` does: it sees UNAVAILABLE, the other side nothing.
  void CutHalfOpen(const std::string& learns, const std::string& other);
  // Messages, ends of connections and dials from `from` to `to` vanish, or flow again.
  void Partition(const std::string& from, const std::string& to, bool on);
  void Pause(SimProcess* process);
  void Resume(SimProcess* process);
  // The process is gone. Its peers see a cut, or nothing if `silent` (the machine lost power).
  void Kill(SimProcess* process, bool silent);

  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t delivered_count() const { return delivered_count_; }
  uint64_t lost_count() const { return lost_count_; }
  uint64_t duplicated_count() const { return duplicated_count_; }
  uint64_t reordered_count() const { return reordered_count_; }
  uint64_t cut_count() const { return cut_count_; }
  // Connections with an end that has not been closed.
  size_t open_connection_count();

 private:
  friend class SimProcess;
  friend class SimConnection;

  std::vector<std::shared_ptr<SimConnection>> Between(const std::string& a, const std::string& b);
  const SimFaults& FaultsOf(const std::string& from, const std::string& to, Lane lane) const;
  absl::Duration Delay(const SimFaults& faults);
  // One way or both.
  bool Partitioned(const std::string& a, const std::string& b) const;
  std::vector<std::shared_ptr<SimConnection>> AcceptedBy(const SimProcess* process);
  void Trace(const SimConnection& to, const BufferList& message);

  SimLoop* const loop_;
  SeededRng rng_;
  SimFaults faults_;
  std::map<std::tuple<std::string, std::string, Lane>, SimFaults> link_faults_;
  std::vector<std::unique_ptr<SimProcess>> processes_;
  std::map<std::string, SimProcess*> by_name_;
  std::set<std::pair<std::string, std::string>> partitions_;
  std::vector<std::weak_ptr<SimConnection>> connections_;
  uint64_t trace_hash_ = 0xcbf29ce484222325;
  uint64_t delivered_count_ = 0;
  uint64_t lost_count_ = 0;
  uint64_t duplicated_count_ = 0;
  uint64_t reordered_count_ = 0;
  uint64_t cut_count_ = 0;
};

}  // namespace gradwire::rpc
