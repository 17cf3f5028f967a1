#include "rpc/transport/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/transport/sim/sim_connection.h"

namespace gradwire::rpc {

// ---- the seams of one process ----

class SimProcess::ProcessClock final : public Clock {
 public:
  explicit ProcessClock(SimProcess* process) : process_(process) {}
  absl::Time Now() override { return process_->network_->loop()->Now(); }
  int64_t WallNowNanos() override { return process_->network_->loop()->WallNowNanos(); }
  TimerId CallAt(absl::Time at, std::function<void()> fn) override {
    return process_->network_->loop()->CallAt(
        at, [process = process_, fn = std::move(fn)] { process->Run(fn); });
  }
  bool CancelTimer(TimerId id) override { return process_->network_->loop()->CancelTimer(id); }

 private:
  SimProcess* const process_;
};

class SimProcess::ProcessExecutor final : public Executor {
 public:
  explicit ProcessExecutor(SimProcess* process) : process_(process) {}
  absl::Status Post(Task task) override {
    if (!process_->alive_) return absl::FailedPreconditionError("the simulated process is dead");
    auto shared = std::make_shared<Task>(std::move(task));
    // Threads are scheduled at different times: tasks may overtake each other.
    const absl::Duration delay =
        absl::Microseconds(1 + static_cast<int64_t>(process_->network_->rng_.Below(20)));
    process_->network_->loop()->CallAfter(
        delay, [process = process_, shared] { process->Run([shared] { (*shared)(); }); });
    return absl::OkStatus();
  }

 private:
  SimProcess* const process_;
};

class SimProcess::ProcessListener final : public Listener {
 public:
  explicit ProcessListener(SimProcess* process) : process_(process) {}
  ~ProcessListener() override {
    process_->accept_ = nullptr;
    ScopedThreadRole role(ThreadRole::kPolling);  // of the OnClosed
    for (const auto& connection : process_->network_->AcceptedBy(process_)) {
      connection->CloseNow(absl::CancelledError("the listener was destroyed"));
    }
  }
  std::string address() const override { return process_->address(); }

 private:
  SimProcess* const process_;
};

class SimProcess::ProcessTransport final : public Transport {
 public:
  explicit ProcessTransport(SimProcess* process) : process_(process) {}

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override {
    if (address != process_->address()) {
      return absl::InvalidArgumentError(absl::StrCat("process ", process_->name(),
                                                     " can only listen on ", process_->address(),
                                                     ", not ", address));
    }
    if (process_->accept_) {
      return absl::UnavailableError(absl::StrCat("address ", address, " is in use"));
    }
    process_->accept_ = std::move(accept);
    return std::unique_ptr<Listener>(new ProcessListener(process_));
  }

  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override {
    SimNetwork* const network = process_->network_;
    const std::string name = address.rfind("sim:", 0) == 0 ? address.substr(4) : std::string();
    const auto found = network->by_name_.find(name);
    SimProcess* const there = found == network->by_name_.end() ? nullptr : found->second;
    auto here_end = std::make_shared<SimConnection>(network, process_,
                                                    there == nullptr ? process_ : there, lane);
    here_end->set_handler(std::move(handler));
    network->connections_.push_back(here_end);
    const SimFaults& faults = network->FaultsOf(process_->name(), name, lane);
    const absl::Duration delay = network->Delay(faults);
    if (there == nullptr || !there->alive() || network->rng_.Chance(faults.dial_failure)) {
      here_end->EndAfter(delay, Refused(address));
      return here_end;
    }
    here_end->GiveUpAfter(
        timeout, absl::UnavailableError(absl::StrCat("dialling ", address, ": no answer within ",
                                                     absl::FormatDuration(timeout))));
    if (network->Partitioned(process_->name(), name)) return here_end;
    auto there_end = std::make_shared<SimConnection>(network, there, process_, lane);
    there_end->MarkAccepted();
    SimConnection::Join(here_end, there_end);
    network->connections_.push_back(there_end);
    network->loop()->CallAfter(delay, [there, there_end, here_end, address] {
      there->Run([=] { Accept(there, there_end, here_end, address); });
    });
    return here_end;
  }

 private:
  static absl::Status Refused(const std::string& address) {
    return absl::UnavailableError(absl::StrCat("dialling ", address, ": connection refused"));
  }

  // In the process that was dialled.
  static void Accept(SimProcess* there, const std::shared_ptr<SimConnection>& there_end,
                     const std::shared_ptr<SimConnection>& here_end, const std::string& address) {
    if (!there_end->open()) return;  // closed or cut on the way
    SimNetwork* const network = there->network_;
    const Lane lane = there_end->lane();
    const AcceptFn accept = there->accept_;  // the listener may go meanwhile
    std::shared_ptr<ConnectionHandler> accepted = accept ? accept(there_end, lane) : nullptr;
    const SimFaults& back = network->FaultsOf(there->name(), here_end->here()->name(), lane);
    if (accepted == nullptr) {
      there_end->Drop();
      here_end->EndAfter(network->Delay(back), Refused(address));
      return;
    }
    there_end->set_handler(std::move(accepted));
    network->loop()->CallAfter(network->Delay(back), [here_end] {
      here_end->here()->Run([here_end] { here_end->Start(); });
    });
    there_end->Start();
  }

  SimProcess* const process_;
};

SimProcess::SimProcess(SimNetwork* network, std::string name, uint64_t seed)
    : network_(network),
      name_(std::move(name)),
      rng_(seed),
      clock_(std::make_unique<ProcessClock>(this)),
      executor_(std::make_unique<ProcessExecutor>(this)),
      transport_(std::make_unique<ProcessTransport>(this)) {}

SimProcess::~SimProcess() = default;

Clock* SimProcess::clock() { return clock_.get(); }
Executor* SimProcess::executor() { return executor_.get(); }
Transport* SimProcess::transport() { return transport_.get(); }
Rng* SimProcess::rng() { return &rng_; }

void SimProcess::Run(std::function<void()> event) {
  if (!alive_) return;
  if (paused_) {
    held_.push_back(std::move(event));
  } else {
    event();
  }
}

// ---- the network ----

SimNetwork::SimNetwork(SimLoop* loop, uint64_t seed) : loop_(loop), rng_(seed) {}

SimNetwork::~SimNetwork() {
  for (const auto& weak : connections_) {
    if (auto connection = weak.lock()) connection->Drop();
  }
}

SimProcess* SimNetwork::AddProcess(const std::string& name) {
  processes_.push_back(std::unique_ptr<SimProcess>(new SimProcess(this, name, rng_.Next())));
  return by_name_[name] = processes_.back().get();
}

SimFaults& SimNetwork::LinkFaults(const std::string& from, const std::string& to, Lane lane) {
  return link_faults_.try_emplace({from, to, lane}, faults_).first->second;
}

const SimFaults& SimNetwork::FaultsOf(const std::string& from, const std::string& to,
                                      Lane lane) const {
  if (link_faults_.empty()) return faults_;
  const auto found = link_faults_.find({from, to, lane});
  return found == link_faults_.end() ? faults_ : found->second;
}

absl::Duration SimNetwork::Delay(const SimFaults& faults) {
  const int64_t min_ns = absl::ToInt64Nanoseconds(faults.delay_min);
  const int64_t max_ns = absl::ToInt64Nanoseconds(faults.delay_max);
  return absl::Nanoseconds(min_ns + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(
                                        std::max<int64_t>(1, max_ns - min_ns)))));
}

bool SimNetwork::Partitioned(const std::string& a, const std::string& b) const {
  return partitions_.contains({a, b}) || partitions_.contains({b, a});
}

std::vector<std::shared_ptr<SimConnection>> SimNetwork::AcceptedBy(const SimProcess* process) {
  std::vector<std::shared_ptr<SimConnection>> found;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (connection != nullptr && connection->open() && connection->accepted() &&
        connection->here() == process) {
      found.push_back(std::move(connection));
    }
  }
  return found;
}

std::vector<std::shared_ptr<SimConnection>> SimNetwork::Between(const std::string& a,
                                                                const std::string& b) {
  std::vector<std::shared_ptr<SimConnection>> found;
  std::vector<std::weak_ptr<SimConnection>> alive;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (connection == nullptr || !connection->open()) continue;
    alive.push_back(weak);
    const std::string& here = connection->here()->name();
    const std::string& there = connection->there()->name();
    if ((here == a && there == b) || (here == b && there == a)) {
      found.push_back(std::move(connection));
    }
  }
  connections_.swap(alive);
  return found;
}

void SimNetwork::Cut(const std::string& a, const std::string& b) {
  for (const auto& connection : Between(a, b)) {
    ++cut_count_;
    connection->GoSilent();  // what is under way is lost
    connection->EndAfter(Delay(faults_), absl::UnavailableError("the connection was cut"));
  }
}

void SimNetwork::CutSilently(const std::string& a, const std::string& b) {
  for (const auto& connection : Between(a, b)) {
    ++cut_count_;
    connection->GoSilent();
  }
}

void SimNetwork::CutHalfOpen(const std::string& learns, const std::string& other) {
  for (const auto& connection : Between(learns, other)) {
    ++cut_count_;
    connection->GoSilent();
    if (connection->here()->name() == learns) {
      connection->EndAfter(Delay(faults_), absl::UnavailableError("the connection was cut"));
    }
  }
}

void SimNetwork::Partition(const std::string& from, const std::string& to, bool on) {
  if (on) {
    partitions_.insert({from, to});
  } else {
    partitions_.erase({from, to});
  }
}

void SimNetwork::Pause(SimProcess* process) { process->paused_ = true; }

void SimNetwork::Resume(SimProcess* process) {
  process->paused_ = false;
  // Held events run as events of their own, in order.
  for (auto& event : process->held_) {
    loop_->CallAfter(absl::ZeroDuration(),
                     [process, event = std::move(event)] { process->Run(event); });
  }
  process->held_.clear();
}

void SimNetwork::Kill(SimProcess* process, bool silent) {
  process->alive_ = false;
  process->held_.clear();
  process->accept_ = nullptr;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (connection == nullptr) continue;
    if (connection->here() == process) {
      connection->Drop();
    } else if (connection->there() == process) {
      connection->GoSilent();
      if (!silent) connection->EndAfter(Delay(faults_), absl::UnavailableError("connection reset"));
    }
  }
}

size_t SimNetwork::open_connection_count() {
  size_t count = 0;
  for (const auto& weak : connections_) {
    auto connection = weak.lock();
    if (connection != nullptr && connection->open()) ++count;
  }
  return count;
}

void SimNetwork::Trace(const SimConnection& to, const BufferList& message) {
  ++delivered_count_;
  const auto mix = [this](uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      trace_hash_ = (trace_hash_ ^ ((value >> shift) & 0xff)) * 0x100000001b3;
    }
  };
  mix(static_cast<uint64_t>(absl::ToUnixNanos(loop_->Now())));
  for (const char c : to.here()->name()) mix(static_cast<uint8_t>(c));
  for (const char c : to.there()->name()) mix(static_cast<uint8_t>(c));
  mix(static_cast<uint64_t>(to.lane()));
  mix(message.size_bytes());
  for (const Buffer& piece : message.pieces()) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte b : piece.bytes()) hash = (hash ^ static_cast<uint8_t>(b)) * 0x100000001b3;
    mix(hash);
  }
}

}  // namespace gradwire::rpc
