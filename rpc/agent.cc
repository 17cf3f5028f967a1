#include "rpc/agent.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rpc/base/fs.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/security/token.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc {

// What an agent owns. The order of the members is the order in which they must outlive each other.
class AgentCore {
 public:
  AgentCore(const AgentOptions& options)
      : spin(options.limits.spin),
        transport(MakeGrpcTransport(
            {.spin = options.limits.spin, .handshake_timeout = options.limits.handshake_timeout})),
        executor({.name = "gw-run",
                  .slot_count = options.executor_slot_count,
                  .on_thread_start = options.on_thread_start}),
        pool(Clock::Real()) {}

  const absl::Duration spin;
  std::unique_ptr<Transport> transport;
  ThreadPool executor;
  BufferPool pool;
  std::unique_ptr<Node> node;
  std::string address;
  std::vector<std::string> ranks;  // names, by rank
};

namespace {

// Wall-clock nanoseconds, raised above the last one of this process: without a rendezvous store,
// what orders the lives of a name.
Incarnation NewIncarnation() {
  static std::atomic<uint64_t> last{0};
  const auto now = static_cast<uint64_t>(Clock::Real().WallNowNanos());
  uint64_t seen = last.load();
  uint64_t next = 0;
  do {
    next = std::max(now, seen + 1);
  } while (!last.compare_exchange_weak(seen, next));
  return Incarnation{next};
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePeers(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> peers;
  if (text.empty()) return peers;
  for (absl::string_view entry : absl::StrSplit(text, ',')) {
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos || equals == 0 || equals + 1 == entry.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("peers: \"", entry,
                       "\" is not name=host:port; the list is name=host:port,name=host:port"));
    }
    std::string name(entry.substr(0, equals));
    for (const auto& [other, address] : peers) {
      if (other == name) {
        return absl::InvalidArgumentError(absl::StrCat("peers: ", name, " is named twice"));
      }
    }
    peers.emplace_back(std::move(name), std::string(entry.substr(equals + 1)));
  }
  return peers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::Start(AgentOptions options) {
  GW_ASSIGN_OR_RETURN(const auto peers, ParsePeers(options.peers));
  Secret token;
  if (!options.token_file.empty()) {
    GW_ASSIGN_OR_RETURN(token, LoadToken(FileSystem::Real(), options.token_file));
  }
  if (!options.listen.empty()) {
    GW_RETURN_IF_ERROR(CheckBind(options.listen, !token.empty(), options.insecure_transport),
                       _ << "agent " << options.name);
    if (token.empty()) {
      GW_LOG_EVERY(INFO, absl::Hours(1))
          << "no job token: whoever reaches the loopback interface of this machine may call"
          << Kv("agent", options.name);
    }
  }
  GW_ASSIGN_OR_RETURN(auto functions, FunctionTable::Build(options.functions.functions()),
                      _ << "agent " << options.name);
  auto core = std::make_shared<AgentCore>(options);
  NodeOptions node;
  node.name = options.name;
  node.job = options.job;
  node.incarnation = NewIncarnation();
  node.token = token;
  node.limits = options.limits;
  node.functions = std::move(functions);
  node.transport = core->transport.get();
  node.clock = &Clock::Real();
  node.rng = &Rng::Secure();
  node.executor = &core->executor;
  node.pool = &core->pool;
  GW_ASSIGN_OR_RETURN(core->node, Node::Create(std::move(node)));
  for (const auto& [name, address] : peers) {
    core->ranks.push_back(name);
    if (name != options.name) GW_RETURN_IF_ERROR(core->node->AddPeer(name, address));
  }
  if (!options.listen.empty()) {
    GW_ASSIGN_OR_RETURN(core->address, core->node->Listen(options.listen),
                        _ << "agent " << options.name);
  }
  return std::unique_ptr<Agent>(new Agent(std::move(core)));
}

Agent::Agent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}

Agent::~Agent() { (void)Leave(absl::Seconds(10)); }

absl::StatusOr<Peer> Agent::Connect(const std::string& name) {
  if (name != this->name()) {
    bool known = false;
    std::vector<std::string> names;
    for (const PeerState& peer : core_->node->Peers()) {
      known = known || (peer.name == name && (!peer.address.empty() || peer.has_session));
      names.push_back(peer.name);
    }
    if (!known) {
      return absl::NotFoundError(absl::StrCat(
          "agent ", this->name(), " knows no ", name, "; ",
          names.empty() ? "no peer is known" : absl::StrCat("known: ", absl::StrJoin(names, ", ")),
          "; name it in AgentOptions::peers or AddPeer"));
    }
    GW_RETURN_IF_ERROR(core_->node->Connect(name).Wait(absl::Hours(1)), _ << "connecting");
  }
  return Peer(core_, name);
}

absl::StatusOr<Peer> Agent::Connect(int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= core_->ranks.size()) {
    return absl::NotFoundError(absl::StrCat("agent ", name(), " knows ", core_->ranks.size(),
                                            " ranks; there is no rank ", rank));
  }
  return Connect(core_->ranks[static_cast<size_t>(rank)]);
}

Peer Agent::At(const std::string& name) const { return Peer(core_, name); }

absl::Status Agent::AddPeer(const std::string& name, const std::string& address) {
  return core_->node->AddPeer(name, address);
}

const std::string& Agent::name() const { return core_->node->name(); }
Incarnation Agent::incarnation() const { return core_->node->incarnation(); }
const std::string& Agent::address() const { return core_->address; }
std::vector<PeerState> Agent::Peers() const { return core_->node->Peers(); }
const AgentStats& Agent::stats() const { return core_->node->stats(); }

absl::Status Agent::Leave(absl::Duration timeout) {
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

absl::Duration Spin(const std::weak_ptr<AgentCore>& core) {
  const std::shared_ptr<AgentCore> agent = core.lock();
  return agent == nullptr ? absl::ZeroDuration() : agent->spin;
}

}  // namespace agent_internal

}  // namespace gradwire::rpc
