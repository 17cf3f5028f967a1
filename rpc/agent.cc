#include "rpc/agent.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/base/fs.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/file_store.h"
#include "rpc/cluster/interface.h"
#include "rpc/cluster/static_store.h"
#include "rpc/membership.h"
#include "rpc/security/token.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc {

// What an agent owns. The order of the members is the order in which they must outlive each other.
class AgentCore {
 public:
  explicit AgentCore(const AgentOptions& options)
      : transport(MakeGrpcTransport(
            {.spin = options.limits.spin, .handshake_timeout = options.limits.handshake_timeout})),
        executor({.name = "gw-run",
                  .slot_count = options.executor_slot_count,
                  .on_thread_start = options.on_thread_start}),
        pool(Clock::Real()) {}

  // Once. Whatever it has begun when it fails ends with this object.
  absl::Status Start(AgentOptions options);

  std::unique_ptr<Transport> transport;
  ThreadPool executor;
  BufferPool pool;
  std::shared_ptr<JobMembership> membership;
  std::unique_ptr<Node> node;
  std::string address;
};

namespace {

// Where to listen, before the port is known.
absl::StatusOr<std::string> ListenOn(const AgentOptions& options,
                                     const std::vector<InterfaceAddress>& interfaces) {
  if (!options.listen.empty()) {
    return ListenAddress(options.listen, options.interface, interfaces);
  }
  if (options.interface.empty() && options.advertise.empty()) return std::string();
  return absl::InvalidArgumentError(
      "interface and advertise say where to listen, and listen=\"\" says nowhere");
}

absl::StatusOr<Secret> TokenOf(const AgentOptions& options, const std::string& listen) {
  Secret token;
  if (!options.token_file.empty()) {
    GW_ASSIGN_OR_RETURN(token, LoadToken(FileSystem::Real(), options.token_file));
  }
  if (listen.empty()) return token;
  GW_RETURN_IF_ERROR(CheckBind(listen, !token.empty(), options.insecure_transport));
  if (token.empty()) {
    GW_LOG_EVERY(INFO, absl::Hours(1))
        << "no job token: whoever reaches the loopback interface of this machine may call"
        << Kv("agent", options.name);
  }
  return token;
}

std::unique_ptr<RendezvousStore> MakeStore(const RendezvousConfig& config, Executor* executor) {
  switch (config.kind) {
    case RendezvousKind::kFile:
      return std::make_unique<FileStore>(&FileSystem::Real(), &Clock::Real(), executor,
                                         FileStoreOptions{.folder = config.folder});
    case RendezvousKind::kTcp:
    case RendezvousKind::kNone:
    case RendezvousKind::kStatic:
      break;
  }
  return std::make_unique<StaticStore>(&Clock::Real(), config.members);
}

}  // namespace

absl::Status AgentCore::Start(AgentOptions options) {
  GW_ASSIGN_OR_RETURN(const RendezvousConfig config,
                      ReadRendezvous(options.rendezvous, options.peers));
  const std::vector<InterfaceAddress> interfaces = SystemInterfaces();
  GW_ASSIGN_OR_RETURN(const std::string listen, ListenOn(options, interfaces));
  NodeOptions node_options;
  GW_ASSIGN_OR_RETURN(node_options.token, TokenOf(options, listen));
  GW_ASSIGN_OR_RETURN(node_options.functions, FunctionTable::Build(options.functions.functions()));
  membership = std::make_shared<JobMembership>(
      JobMembership::Options{.name = options.name,
                             .world_size = options.world_size,
                             .rank = options.rank,
                             .join_timeout = options.join_timeout,
                             .find_timeout = options.limits.connect_timeout},
      config, MakeStore(config, &executor), &Clock::Real(), Rng::Secure());
  node_options.name = options.name;
  node_options.job = options.job;
  node_options.limits = options.limits;
  node_options.transport = transport.get();
  node_options.clock = &Clock::Real();
  node_options.rng = &Rng::Secure();
  node_options.executor = &executor;
  node_options.pool = &pool;
  if (membership->asks()) {
    node_options.resolve = [weak = std::weak_ptr(membership)](const std::string& name) {
      const auto self = weak.lock();
      return self != nullptr ? self->Resolve(name)
                             : Future<std::string>(absl::UnavailableError("the agent is gone"));
    };
  }
  GW_ASSIGN_OR_RETURN(node, Node::Create(std::move(node_options)));
  std::string told;  // what others dial
  if (!listen.empty()) {
    GW_ASSIGN_OR_RETURN(address, node->Listen(listen));
    absl::StatusOr<std::string> advertised =
        AdvertisedAddress(address, options.advertise, interfaces);
    // Who is found by a list needs no address of its own.
    if (!advertised.ok() && (membership->asks() || !options.advertise.empty())) {
      return advertised.status();
    }
    if (advertised.ok()) told = address = *std::move(advertised);
  }
  GW_ASSIGN_OR_RETURN(const Membership joined,
                      membership->StartJoin(told).Wait(options.join_timeout + absl::Seconds(15)));
  return membership->Finish(joined, *node);
}

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
    const absl::StatusOr<std::string> holder = core_->membership->FindRank(rank, *core_->node);
    if (!holder.ok() || *holder == known) return peer;
    return Connect(*holder);
  }
  GW_ASSIGN_OR_RETURN(const std::string name, core_->membership->FindRank(rank, *core_->node));
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
std::vector<PeerState> Agent::Peers() const { return core_->node->Peers(); }
const AgentStats& Agent::stats() const { return core_->node->stats(); }

absl::Status Agent::Leave(absl::Duration timeout) {
  if (const absl::Status left = core_->membership->Leave(timeout); !left.ok()) {
    GW_LOG(INFO) << "the rendezvous was not told that this agent leaves" << Kv("agent", name())
                 << Kv("why", left.ToString());
  }
  core_->node->Close(absl::UnavailableError(absl::StrCat(name(), " left")));
  return core_->node->Join(timeout);
}

namespace agent_internal {

CallHandle StartCall(const std::weak_ptr<AgentCore>& core, const std::string& peer,
                     absl::string_view function, const std::string& declaration, Payload arguments,
                     const CallOptions& options, ReplyCallback done) {
  const std::shared_ptr<AgentCore> agent = core.lock();
  if (agent == nullptr) {
    done(absl::FailedPreconditionError(
        absl::StrCat("call ", function, " to ", peer, ": the agent of this peer is gone")));
    return CallHandle();
  }
  const FunctionId* id = agent->node->Intern(function, declaration);
  return agent->node->StartCall(peer, id, std::move(arguments), options, std::move(done));
}

}  // namespace agent_internal

}  // namespace gradwire::rpc
