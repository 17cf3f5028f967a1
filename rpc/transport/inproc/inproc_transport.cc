#include "rpc/transport/inproc/inproc_transport.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/status.h"
#include "rpc/transport/connection_set.h"
#include "rpc/transport/inproc/inproc_connection.h"
#include "rpc/transport/inproc/inproc_loop.h"

namespace gradwire::rpc {
namespace {

constexpr absl::string_view kScheme = "inproc:";
// Longest name of a listener; it shows up in messages.
constexpr size_t kMaxNameBytes = 255;
constexpr absl::string_view kGone = "nobody listens there any more";

absl::Status CheckAddress(const std::string& address) {
  if (absl::StartsWith(address, kScheme) && address.size() <= kScheme.size() + kMaxNameBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address, "\" is not an address inside the process (inproc:NAME)"));
}

}  // namespace

// What a dial needs of a listener; outlives it while a dial is under way.
struct InprocHub::Accepting {
  std::shared_ptr<InprocLoop> loop;
  std::shared_ptr<ConnectionSet> connections;
  ConnectionSet::Group group = 0;
  Clock* clock = nullptr;
  std::string address;
  AcceptFn accept;
  Mutex mu;
  bool stopped GW_GUARDED_BY(mu) = false;
};

class InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<InprocHub> hub, std::shared_ptr<InprocHub::Accepting> accepting)
      : hub_(std::move(hub)), accepting_(std::move(accepting)) {}

  ~InprocListener() override {
    {
      MutexLock lock(hub_->mu_);
      hub_->by_name_.erase(accepting_->address);
    }
    {
      MutexLock lock(accepting_->mu);
      accepting_->stopped = true;
    }
    accepting_->connections->CloseAndWait(accepting_->group,
                                          absl::CancelledError("the listener was destroyed"));
  }

  std::string address() const override { return accepting_->address; }

 private:
  const std::shared_ptr<InprocHub> hub_;
  const std::shared_ptr<InprocHub::Accepting> accepting_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocHub> hub, Clock* clock)
      : hub_(std::move(hub)), clock_(clock == nullptr ? &Clock::Real() : clock) {}

  ~InprocTransport() override {
    connections_->CloseAllAndWait(absl::CancelledError("the transport was destroyed"));
    loop_->Stop();
  }

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   AcceptFn accept) override {
    GW_RETURN_IF_ERROR(CheckAddress(address));
    auto accepting = std::make_shared<InprocHub::Accepting>();
    accepting->loop = loop_;
    accepting->connections = connections_;
    accepting->group = connections_->NewGroup();
    accepting->clock = clock_;
    accepting->accept = std::move(accept);
    MutexLock lock(hub_->mu_);
    accepting->address = address;
    while (accepting->address == kScheme || (address == kScheme && InUse(accepting->address))) {
      accepting->address = absl::StrCat(kScheme, ++hub_->last_free_);
    }
    if (InUse(accepting->address)) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": it is in use"));
    }
    hub_->by_name_.emplace(accepting->address, accepting);
    return std::unique_ptr<Listener>(std::make_unique<InprocListener>(hub_, std::move(accepting)));
  }

  std::shared_ptr<Connection> Dial(const std::string& address, Lane lane,
                                   std::shared_ptr<ConnectionHandler> handler,
                                   absl::Duration timeout) override {
    const uint64_t number = connections_->Add(ConnectionSet::kDialled);
    auto here = std::make_shared<InprocConnection>(
        loop_, clock_, address, [set = connections_, number] { set->Ended(number); });
    here->Open(std::move(handler));
    connections_->Started(number, here);
    if (absl::Status bad = CheckAddress(address); !bad.ok()) {
      here->Close(std::move(bad));
      return here;
    }
    std::shared_ptr<InprocHub::Accepting> accepting;
    {
      MutexLock lock(hub_->mu_);
      const auto found = hub_->by_name_.find(address);
      if (found != hub_->by_name_.end()) accepting = found->second;
    }
    if (accepting == nullptr) {
      here->Close(Refused(address, "nobody listens there"));
      return here;
    }
    here->GiveUpAfter(timeout, absl::UnavailableError(absl::StrCat("dialling ", address,
                                                                   ": no connection within ",
                                                                   absl::FormatDuration(timeout))));
    if (!accepting->loop->Post([accepting, here, lane] { Accept(*accepting, here, lane); })) {
      here->Close(Refused(address, kGone));
    }
    return here;
  }

 private:
  static absl::Status Refused(const std::string& address, absl::string_view cause) {
    return absl::UnavailableError(absl::StrCat("dialling ", address, ": ", cause));
  }

  bool InUse(const std::string& address) const GW_REQUIRES(hub_->mu_) {
    return hub_->by_name_.contains(address);
  }

  // On the listener's loop.
  static void Accept(InprocHub::Accepting& accepting, const std::shared_ptr<InprocConnection>& here,
                     Lane lane) {
    uint64_t number = 0;
    {
      // A number that was taken before the listener stopped is waited for by its destructor.
      MutexLock lock(accepting.mu);
      if (!accepting.stopped) number = accepting.connections->Add(accepting.group);
    }
    if (number == 0) {
      here->Close(Refused(accepting.address, kGone));
      return;
    }
    const auto ended = [set = accepting.connections, number] { set->Ended(number); };
    auto there = std::make_shared<InprocConnection>(
        accepting.loop, accepting.clock, absl::StrCat(kScheme, "dialler-", number), ended);
    std::shared_ptr<ConnectionHandler> handler = accepting.accept(there, lane);
    if (handler == nullptr) {
      here->Close(Refused(accepting.address, "refused"));
      ended();
      return;
    }
    there->Open(std::move(handler));
    accepting.connections->Started(number, there);
    // In this order, so that what `there` writes finds `here` joined.
    const bool alive = here->loop()->Post([here, there] { here->Join(there); });
    there->Join(here);
    if (!alive) there->PeerEnded();
  }

  const std::shared_ptr<InprocHub> hub_;
  Clock* const clock_;
  const std::shared_ptr<ConnectionSet> connections_ = std::make_shared<ConnectionSet>();
  const std::shared_ptr<InprocLoop> loop_ = std::make_shared<InprocLoop>("gw-inproc");
};

std::unique_ptr<Transport> MakeInprocTransport(std::shared_ptr<InprocHub> hub, Clock* clock) {
  return std::make_unique<InprocTransport>(std::move(hub), clock);
}

}  // namespace gradwire::rpc
