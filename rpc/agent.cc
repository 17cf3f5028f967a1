#include "rpc/agent.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/agent_core.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/rendezvous_wire.h"

namespace gradwire::rpc {

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options) {
  auto core = std::make_shared<AgentCore>(options);
  const std::string name = options.name;
  GW_RETURN_IF_ERROR(core->Start(std::move(options)), _ << "agent " << name);
  return std::unique_ptr<Agent>(new Agent(std::move(core)));
}

Agent::Agent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}

Agent::~Agent() { (void)Leave(absl::Seconds(10)); }

absl::StatusOr<Peer> Agent::Connect(const std::string& name) {
  if (name == this->name()) return Peer(core_, name);
  bool known = false;
  std::vector<std::string> names;
  for (const PeerState& peer : Peers()) {
    known = known || (peer.name == name && (!peer.address.empty() || peer.has_session));
    names.push_back(peer.name);
  }
  if (!known && core_->membership->asks()) {
    GW_RETURN_IF_ERROR(core_->membership->Find(name, *core_->node), _ << "agent " << this->name());
  } else if (!known) {
    return absl::NotFoundError(absl::StrCat(
        "agent ", this->name(), " knows no ", name, "; ",
        names.empty() ? "no peer is known" : absl::StrCat("known: ", absl::StrJoin(names, ", ")),
        "; name it in AgentOptions::peers or AddPeer"));
  }
  GW_RETURN_IF_ERROR(core_->node->Connect(name).Wait(absl::Hours(1)), _ << "connecting");
  return Peer(core_, name);
}

absl::StatusOr<Peer> Agent::Connect(int rank) {
  const std::string known = core_->membership->NameOfRank(rank);
  if (!known.empty()) {
    absl::StatusOr<Peer> peer = Connect(known);
    if (peer.ok() || !core_->membership->asks()) return peer;
    // Its holder may have died, and another one have its rank.
    const absl::StatusOr<std::string> holder =
        core_->membership->FindRank(rank, absl::ZeroDuration(), *core_->node);
    if (!holder.ok() || *holder == known) return peer;
    return Connect(*holder);
  }
  GW_ASSIGN_OR_RETURN(
      const std::string name,
      core_->membership->FindRank(rank, core_->membership->find_timeout(), *core_->node));
  return Connect(name);
}

Peer Agent::At(const std::string& name) const { return Peer(core_, name); }

absl::Status Agent::AddPeer(const std::string& name, const std::string& address) {
  return core_->node->AddPeer(name, address);
}

const std::string& Agent::name() const { return core_->node->name(); }
Incarnation Agent::incarnation() const { return core_->node->incarnation(); }
const std::string& Agent::address() const { return core_->address; }
int Agent::rank() const { return core_->membership->self().rank; }
int Agent::world_size() const { return core_->membership->world_size(); }
std::vector<Member> Agent::Members() const { return core_->membership->members(); }
std::vector<PeerState> Agent::Peers() const {
  std::vector<PeerState> peers = core_->node->Peers();
  // Those who join here call under names that mean nothing to others.
  std::erase_if(peers, [](const PeerState& peer) {
    return absl::StartsWith(peer.name, kRendezvousCallerPrefix);
  });
  return peers;
}
const AgentStats& Agent::stats() const { return core_->node->stats(); }

absl::Status Agent::Leave(absl::Duration timeout) { return core_->Leave(timeout); }

namespace agent_internal {

CallHandle StartCall(const std::weak_ptr<AgentCore>& core, const std::string& peer,
                     absl::string_view function, const std::string& declaration, Payload arguments,
                     const CallOptions& options, ReplyCallback done) {
  const std::shared_ptr<AgentCore> agent = core.lock();
  if (agent == nullptr) {
    done(absl::FailedPreconditionError(absl::StrCat(
        "call ", function, " to ", peer,
        ": the agent of this peer is gone; keep the Agent as long as its Peers are used")));
    return CallHandle();
  }
  const FunctionId* id = agent->node->Intern(function, declaration);
  return agent->node->StartCall(peer, id, std::move(arguments), options, std::move(done));
}

}  // namespace agent_internal

}  // namespace gradwire::rpc
