#include "rpc/rendezvous_service.h"

namespace gradwire::rpc {
namespace {

// The session that brought the call; 0: none, or gone.
SessionId SessionOf(CallInfo& call) {
  const auto* const incoming = dynamic_cast<const IncomingCall*>(&call);
  const auto session = incoming == nullptr ? nullptr : incoming->session().lock();
  return session == nullptr ? SessionId{} : session->id();
}

}  // namespace

RendezvousService::RendezvousService(Clock* clock, EmbeddedStoreOptions options)
    : store_(clock, options), clock_(clock) {}

void RendezvousService::Bind(Registry& functions) {
  const std::shared_ptr<RendezvousService> self = shared_from_this();
  functions
      .Bind(kRendezvousJoin,
            [self](CallInfo& call, WireJoin wire) { return self->Join(call, std::move(wire)); },
            {.run = kInline})
      .Bind(kRendezvousFind,
            [self](CallInfo& call, WireFind wire) { return self->Find(call, std::move(wire)); },
            {.run = kInline})
      .Bind(kRendezvousLeave,
            [self](CallInfo& call, const std::string& name, uint64_t incarnation) {
              return self->Leave(call, name, incarnation);
            },
            {.run = kInline});
}

Future<WireJoined> RendezvousService::Join(CallInfo& call, WireJoin wire) {
  JoinRequest request = FromWire(std::move(wire));
  const SessionId session = SessionOf(call);
  {
    // Its session may end at any moment. Either OnSessionEnd finds the entry, or the call is
    // cancelled by now: the session cancels its calls before it says that it has ended.
    MutexLock lock(mu_);
    if (call.cancelled()) {
      return Future<WireJoined>(absl::CancelledError("the caller has ended"));
    }
    lives_[Caller(call.caller(), call.caller_incarnation().value)] = {request.name,
                                                                      request.instance, session};
  }
  const Future<Membership> joined = store_.Join(std::move(request));
  call.OnCancel([joined] { joined.Cancel(); });
  return joined.ThenInline(
      [](const absl::StatusOr<Membership>& outcome) { return ToWire(outcome); });
}

Future<WireFound> RendezvousService::Find(CallInfo& call, WireFind wire) {
  const absl::Duration timeout = wire.timeout;
  const Future<Member> found = wire.name.empty() ? store_.ResolveRank(wire.rank, timeout)
                                                 : store_.Resolve(wire.name, timeout);
  call.OnCancel([found] { found.Cancel(); });
  return found.ThenInline([](const absl::StatusOr<Member>& outcome) { return ToWire(outcome); });
}

Future<WireVerdict> RendezvousService::Leave(CallInfo& call, const std::string& name,
                                             uint64_t incarnation) {
  {
    MutexLock lock(mu_);
    const auto found = lives_.find(Caller(call.caller(), call.caller_incarnation().value));
    if (found == lives_.end() || found->second.name != name) {
      return Future<WireVerdict>(
          ToWire(absl::PermissionDeniedError("only who joined under a name may leave it")));
    }
  }
  return store_.Leave(name, Incarnation{incarnation}).ThenInline([](const absl::Status& left) {
    return ToWire(left);
  });
}

void RendezvousService::OnSessionEnd(const PeerIdentity& peer, SessionId session) {
  Life life;
  {
    MutexLock lock(mu_);
    const auto found = lives_.find(Caller(peer.name, peer.incarnation.value));
    // Another session of the same life may have joined meanwhile.
    if (found == lives_.end() || found->second.session != session) return;
    life = std::move(found->second);
    lives_.erase(found);
    hung_up_.NotifyAll();
  }
  store_.ReportDead(life.name, life.instance);
}

bool RendezvousService::WaitForGoodbyes(absl::Duration timeout) {
  BlockingRegion region;
  if (!region.status().ok()) return false;
  const absl::Time deadline = clock_->Now() + timeout;
  MutexLock lock(mu_);
  while (!lives_.empty()) {
    const absl::Duration left = deadline - clock_->Now();
    if (left <= absl::ZeroDuration()) return false;
    hung_up_.WaitFor(mu_, left);
  }
  return true;
}

}  // namespace gradwire::rpc
