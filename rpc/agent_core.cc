#include "rpc/agent_core.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/cluster/address.h"
#include "rpc/cluster/file_store.h"
#include "rpc/cluster/interface.h"
#include "rpc/cluster/static_store.h"
#include "rpc/rendezvous_client.h"
#include "rpc/security/token.h"
#include "rpc/transport/grpc/grpc_transport.h"

namespace gradwire::rpc {
namespace {

// Beyond join_timeout, after which a store answers; a folder's lock takes up to 10 s.
constexpr absl::Duration kJoinGrace = absl::Seconds(15);
// How long the server of a world that failed waits for the others to have got the news.
constexpr absl::Duration kGoodbyes = absl::Seconds(1);

// Where to listen, before the port is known.
absl::StatusOr<std::string> ListenOn(const AgentOptions& options,
                                     const std::vector<InterfaceAddress>& interfaces) {
  if (!options.listen.empty()) {
    return ListenAddress(options.listen, options.interface, interfaces);
  }
  if (options.interface.empty() && options.advertise.empty() && !options.serve_rendezvous) {
    return std::string();
  }
  return absl::InvalidArgumentError(
      "interface, advertise and serve_rendezvous need a place to listen, and listen=\"\" says "
      "none");
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

// Two spellings of one place that are common enough to be seen through.
bool SamePlace(HostPort a, HostPort b) {
  if (a.host == "localhost") a.host = "127.0.0.1";
  if (b.host == "localhost") b.host = "127.0.0.1";
  return a == b;
}

// Whether an agent that listens on `listen` is the one that others find at `rendezvous`.
bool ListensAt(const std::string& rendezvous, const std::string& listen,
               const AgentOptions& options, const std::vector<InterfaceAddress>& interfaces) {
  const absl::StatusOr<HostPort> wanted = ParseHostPort(rendezvous);
  const absl::StatusOr<HostPort> own = ParseHostPort(listen);
  if (!wanted.ok() || !own.ok() || own->port != wanted->port) return false;
  if (SamePlace(*wanted, *own)) return true;
  const absl::StatusOr<std::string> told = AdvertisedAddress(listen, options.advertise, interfaces);
  if (told.ok() && *told == rendezvous) return true;
  return own->is_any() && std::any_of(interfaces.begin(), interfaces.end(),
                                      [&](const auto& one) { return one.host == wanted->host; });
}

absl::StatusOr<RendezvousConfig> ReadOptions(const AgentOptions& options, const std::string& listen,
                                             const std::vector<InterfaceAddress>& interfaces,
                                             bool* serves) {
  GW_ASSIGN_OR_RETURN(RendezvousConfig config, ReadRendezvous(options.rendezvous, options.peers));
  if (options.join_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a join timeout of ", absl::FormatDuration(options.join_timeout), " is not positive"));
  }
  *serves = options.serve_rendezvous;
  if (options.serve_rendezvous && options.rendezvous.empty() && options.peers.empty()) {
    config.kind = RendezvousKind::kTcp;
  } else if (config.kind == RendezvousKind::kTcp) {
    *serves = *serves || ListensAt(config.address, listen, options, interfaces);
  } else if (options.serve_rendezvous) {
    return absl::InvalidArgumentError(
        "serve_rendezvous is for tcp://; nobody serves a folder or a list");
  } else if (config.members.empty() && config.kind == RendezvousKind::kStatic &&
             options.world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a world of ", options.world_size, " needs a rendezvous: --rendezvous=tcp://host:port"));
  }
  return config;
}

}  // namespace

AgentCore::AgentCore(const AgentOptions& options)
    : transport(MakeGrpcTransport(
          {.spin = options.limits.spin, .handshake_timeout = options.limits.handshake_timeout})),
      executor({.name = "gw-run",
                .slot_count = options.executor_slot_count,
                .on_thread_start = options.on_thread_start}),
      pool(Clock::Real()) {}

AgentCore::~AgentCore() = default;

absl::StatusOr<std::shared_ptr<RendezvousStore>> AgentCore::MakeStore(
    const RendezvousConfig& config, const AgentOptions& options, const NodeOptions& node_options) {
  switch (config.kind) {
    case RendezvousKind::kTcp: {
      if (service != nullptr) {
        return std::shared_ptr<RendezvousStore>(service, &service->store());
      }
      GW_ASSIGN_OR_RETURN(
          std::unique_ptr<RendezvousClient> client,
          RendezvousClient::Create(
              {.address = config.address, .self = options.name, .node = node_options}));
      return std::shared_ptr<RendezvousStore>(std::move(client));
    }
    case RendezvousKind::kFile: {
      FileStoreOptions folder{.folder = config.folder};
      folder.max_timeout = std::max(folder.max_timeout, options.join_timeout);
      return std::make_shared<FileStore>(&FileSystem::Real(), &Clock::Real(), &executor, folder);
    }
    case RendezvousKind::kNone:
    case RendezvousKind::kStatic:
      break;
  }
  return std::make_shared<StaticStore>(&Clock::Real(), config.members);
}

absl::Status AgentCore::Start(AgentOptions options) {
  const std::vector<InterfaceAddress> interfaces = SystemInterfaces();
  GW_ASSIGN_OR_RETURN(const std::string listen, ListenOn(options, interfaces));
  bool serves = false;
  GW_ASSIGN_OR_RETURN(const RendezvousConfig config,
                      ReadOptions(options, listen, interfaces, &serves));
  NodeOptions node_options;
  node_options.name = options.name;
  node_options.job = options.job;
  GW_ASSIGN_OR_RETURN(node_options.token, TokenOf(options, listen));
  node_options.limits = options.limits;
  node_options.transport = transport.get();
  node_options.clock = &Clock::Real();
  node_options.rng = &Rng::Secure();
  node_options.executor = &executor;
  node_options.pool = &pool;
  if (serves) {
    EmbeddedStoreOptions store;
    store.max_timeout = std::max(store.max_timeout, options.join_timeout);
    // Whoever belongs to no world itself lets everybody wait as long as they want to.
    store.join_timeout = options.world_size == 0 ? store.max_timeout : options.join_timeout;
    service = std::make_shared<RendezvousService>(&Clock::Real(), store);
    service->Bind(options.functions);
    node_options.on_session_end = [weak = std::weak_ptr(service)](const PeerIdentity& peer,
                                                                  SessionId session,
                                                                  const absl::Status&) {
      if (const auto self = weak.lock()) self->OnSessionEnd(peer, session);
    };
  }
  GW_ASSIGN_OR_RETURN(node_options.functions, FunctionTable::Build(options.functions.functions()));
  GW_ASSIGN_OR_RETURN(std::shared_ptr<RendezvousStore> store,
                      MakeStore(config, options, node_options));
  membership = std::make_shared<JobMembership>(
      JobMembership::Options{.name = options.name,
                             .world_size = options.world_size,
                             .rank = options.rank,
                             .join_timeout = options.join_timeout,
                             .find_timeout = options.limits.connect_timeout},
      config, std::move(store), &Clock::Real(), Rng::Secure());
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
  return Join(options, told);
}

absl::Status AgentCore::Join(const AgentOptions& options, const std::string& told) {
  const Future<Membership> joining = membership->StartJoin(told);
  if (service != nullptr) {
    // Nobody came before it: it is in already, and lets others in while it waits for them.
    for (const Member& member : service->store().Members()) {
      if (member.name == options.name) {
        GW_RETURN_IF_ERROR(node->SetIncarnation(member.incarnation));
      }
    }
  }
  const absl::StatusOr<Membership> joined = joining.Wait(options.join_timeout + kJoinGrace);
  if (joined.ok()) return membership->Finish(*joined, *node);
  if (service != nullptr) {
    service->Close(joined.status());
    (void)service->WaitForGoodbyes(kGoodbyes);
  }
  return joined.status();
}

absl::Status AgentCore::Leave(absl::Duration timeout) {
  const absl::Time deadline = Clock::Real().Now() + timeout;
  if (const absl::Status left = membership->Leave(timeout); !left.ok()) {
    GW_LOG(INFO) << "the rendezvous was not told that this agent leaves"
                 << Kv("agent", node->name()) << Kv("why", left.ToString());
  }
  const absl::Status why = absl::UnavailableError(absl::StrCat(node->name(), " left"));
  if (service != nullptr) service->Close(why);
  node->Close(why);
  return node->Join(std::max(absl::ZeroDuration(), deadline - Clock::Real().Now()));
}

}  // namespace gradwire::rpc
