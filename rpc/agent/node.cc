#include "rpc/agent/node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/bulk_link.h"
#include "rpc/agent/control_link.h"
#include "rpc/agent/node_impl.h"
#include "rpc/agent/self_call.h"
#include "rpc/base/status.h"

namespace gradwire::rpc {

absl::StatusOr<std::unique_ptr<Node>> Node::Create(NodeOptions options) {
  GW_RETURN_IF_ERROR(CheckName("agent name", options.name));
  if (options.transport == nullptr || options.clock == nullptr || options.rng == nullptr ||
      options.executor == nullptr || options.pool == nullptr) {
    return absl::InvalidArgumentError(
        "NodeOptions lacks a transport, clock, rng, executor or pool");
  }
  if (options.functions == nullptr) {
    GW_ASSIGN_OR_RETURN(options.functions, FunctionTable::Build({}));
  }
  return std::unique_ptr<Node>(new Node(std::make_shared<NodeImpl>(std::move(options))));
}

Node::Node(std::shared_ptr<NodeImpl> impl) : impl_(std::move(impl)) {}

Node::~Node() {
  Close(absl::CancelledError("the agent was destroyed"));
  // Everything that is open ends by itself (closes are bounded); the wait is for tidiness.
  (void)Join(impl_->limits().join_timeout);
  impl_->DropListeners();
}

absl::StatusOr<std::string> Node::Listen(const std::string& address) {
  return impl_->Listen(address);
}
absl::Status Node::SetIncarnation(Incarnation incarnation) {
  return impl_->SetIncarnation(incarnation);
}
absl::Status Node::AddPeer(const std::string& name, const std::string& address, bool any_name,
                           Incarnation incarnation) {
  return impl_->AddPeer(name, address, any_name, incarnation);
}
const FunctionId* Node::Intern(absl::string_view name, absl::string_view declaration) {
  return impl_->Intern(name, declaration);
}
CallHandle Node::StartCall(const std::string& peer, const FunctionId* function, Payload arguments,
                           const CallOptions& options, ReplyCallback done) {
  return impl_->StartCall(peer, function, std::move(arguments), options, std::move(done));
}
Future<void> Node::Connect(const std::string& peer) { return impl_->Connect(peer); }
void Node::Disconnect(const std::string& peer, const absl::Status& why) {
  impl_->Disconnect(peer, why);
}
void Node::Close(const absl::Status& why) { impl_->Close(why); }
absl::Status Node::Join(absl::Duration timeout) { return impl_->Join(timeout); }
bool Node::drained() const { return impl_->drained(); }
const std::string& Node::name() const { return impl_->self().agent.name; }
Incarnation Node::incarnation() const {
  return impl_->joined() ? impl_->self().agent.incarnation : Incarnation{};
}
const AgentStats& Node::stats() const { return impl_->env().stats; }
std::vector<PeerState> Node::Peers() const { return impl_->Peers(); }

// ---- NodeImpl: the Node's methods ----

NodeImpl::NodeImpl(NodeOptions options)
    : options_(std::move(options)),
      self_{options_.job, PeerIdentity{options_.name, options_.incarnation}, options_.token},
      env_(std::make_shared<SessionEnv>()),
      joined_(options_.incarnation.value != 0) {
  env_->clock = options_.clock;
  env_->executor = options_.executor;
  env_->pool = options_.pool;
  env_->limits = options_.limits;
  env_->functions = options_.functions;
  env_->self = options_.name;
}

absl::StatusOr<std::string> NodeImpl::Listen(const std::string& address) {
  absl::StatusOr<std::unique_ptr<Listener>> listener = options_.transport->Listen(
      address,
      [weak = weak_from_this()](std::shared_ptr<Connection> connection,
                                Lane lane) -> std::shared_ptr<ConnectionHandler> {
        auto self = weak.lock();
        return self == nullptr ? nullptr : self->Accept(std::move(connection), lane);
      });
  if (!listener.ok()) return listener.status();
  std::string real = (*listener)->address();
  MutexLock lock(mu_);
  if (closed_) return absl::FailedPreconditionError("the agent is closed");
  listeners_.push_back(*std::move(listener));
  return real;
}

std::shared_ptr<ConnectionHandler> NodeImpl::Accept(std::shared_ptr<Connection> connection,
                                                    Lane lane) {
  // Who dials tries again; we have no incarnation to answer with.
  if (!joined()) return nullptr;
  if (!LinkOpened(/*pending_hello=*/true)) return nullptr;
  if (lane == Lane::kControl) {
    auto link = std::make_shared<ControlLink>(shared_from_this());
    link->Start(std::move(connection));
    return link;
  }
  auto link = std::make_shared<BulkLink>(shared_from_this());
  link->Start(std::move(connection));
  return link;
}

absl::Status NodeImpl::SetIncarnation(Incarnation incarnation) {
  if (incarnation.value == 0) {
    return absl::InvalidArgumentError("an agent needs an incarnation other than 0");
  }
  MutexLock lock(mu_);
  if (joined()) return absl::FailedPreconditionError("the incarnation is known");
  self_.agent.incarnation = incarnation;
  joined_.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status NodeImpl::AddPeer(const std::string& name, const std::string& address, bool any_name,
                               Incarnation incarnation) {
  GW_RETURN_IF_ERROR(CheckName("peer name", name));
  MutexLock lock(mu_);
  PeerEntry& entry = peers_[name];
  entry.address = address;
  entry.any_name = any_name;
  entry.last_incarnation = std::max(entry.last_incarnation, incarnation);
  return absl::OkStatus();
}

const FunctionId* NodeImpl::Intern(absl::string_view name, absl::string_view declaration) {
  const std::string key = absl::StrCat(name, "\n", declaration);
  MutexLock lock(mu_);
  const FunctionId*& entry = function_index_[key];
  if (entry == nullptr) {
    function_ids_.push_back(
        {std::string(name), std::string(declaration), static_cast<uint32_t>(function_ids_.size())});
    entry = &function_ids_.back();
  }
  return entry;
}

std::shared_ptr<Session> NodeImpl::EnsureSessionLocked(const std::string& peer, PeerEntry& entry,
                                                       bool* dial) {
  if (entry.session != nullptr && entry.session->state() != SessionState::kBuried) {
    return entry.session;
  }
  entry.session = std::make_shared<Session>(env_, peer, weak_from_this());
  ++session_count_;
  entry.dialling = true;
  entry.dial_started = clock().Now();
  entry.backoff = limits().dial_backoff_min;
  entry.attempts = 0;
  *dial = true;
  return entry.session;
}

CallHandle NodeImpl::StartCall(const std::string& peer, const FunctionId* function,
                               Payload arguments, const CallOptions& options, ReplyCallback done) {
  if (peer == self_.agent.name) {
    return StartSelfCall(function, std::move(arguments), options, std::move(done));
  }
  std::shared_ptr<Session> session;
  bool dial = false;
  absl::Status refused;
  {
    MutexLock lock(mu_);
    if (closed_) {
      refused = absl::FailedPreconditionError(
          absl::StrCat("call ", function->name, " to ", peer, ": agent ", self_.agent.name,
                       " has left (", closed_why_.message(), ")"));
    } else if (!joined()) {
      refused = absl::FailedPreconditionError(absl::StrCat(
          "call ", function->name, " to ", peer, ": agent ", self_.agent.name, " has not joined"));
    } else {
      session = EnsureSessionLocked(peer, peers_[peer], &dial);
    }
  }
  if (session == nullptr) {
    done(refused);
    return CallHandle();
  }
  const uint64_t seq = session->StartCall(function, std::move(arguments), options, std::move(done));
  if (dial) StartDial(session);
  return CallHandle(session, seq);
}

CallHandle NodeImpl::StartSelfCall(const FunctionId* function, Payload arguments,
                                   const CallOptions& options, ReplyCallback done) {
  const BoundFunction* bound = env_->functions->Find(function->name);
  absl::Status refused;
  if (bound == nullptr) {
    refused = env_->functions->Unknown(function->name);
  } else if (bound->declaration != function->declaration) {
    refused = absl::InvalidArgumentError(absl::StrCat("function ", bound->name, " is declared ",
                                                      bound->declaration, " (", bound->place,
                                                      ") and called as ", function->declaration));
  }
  const absl::Duration timeout = options.timeout == absl::ZeroDuration()
                                     ? limits().default_timeout
                                     : std::min(options.timeout, limits().max_timeout);
  if (refused.ok() && timeout <= absl::ZeroDuration()) {
    refused = absl::InvalidArgumentError(
        absl::StrCat("a timeout of ", absl::FormatDuration(timeout), " is not positive"));
  }
  ++env_->stats.calls_started;
  std::shared_ptr<SelfCall> call;
  {
    MutexLock lock(mu_);
    if (closed_) {
      refused = absl::FailedPreconditionError(
          absl::StrCat("call ", function->name, ": agent ", self_.agent.name, " has left"));
    }
    if (refused.ok()) {
      call =
          std::make_shared<SelfCall>(shared_from_this(), ++last_self_call_,
                                     std::shared_ptr<const BoundFunction>(env_->functions, bound),
                                     clock().Now() + timeout, std::move(done));
      self_calls_.emplace(last_self_call_, call);
    }
  }
  if (!refused.ok()) {
    ++env_->stats.calls_ended;
    done(refused);  // NOLINT(bugprone-use-after-move): moved only where nothing is refused
    return CallHandle();
  }
  call->Start(std::move(arguments));
  return CallHandle(call, 0);
}

void NodeImpl::SelfCallEnded(uint64_t number) {
  ++env_->stats.calls_ended;
  std::shared_ptr<SelfCall> ended;  // destroyed outside the lock
  MutexLock lock(mu_);
  const auto found = self_calls_.find(number);
  if (found == self_calls_.end()) return;
  ended = std::move(found->second);
  self_calls_.erase(found);
  if (DrainedLocked()) drained_cv_.NotifyAll();
  lock.Unlock();
}

Future<void> NodeImpl::Connect(const std::string& peer) {
  if (peer == self_.agent.name) return Future<void>(absl::OkStatus());
  std::shared_ptr<Session> session;
  bool dial = false;
  Promise<void> promise;
  Future<void> future = promise.future();
  {
    MutexLock lock(mu_);
    if (closed_) {
      promise.Set(absl::FailedPreconditionError("the agent has left"));
      return future;
    }
    if (!joined()) {
      promise.Set(absl::FailedPreconditionError("the agent has not joined"));
      return future;
    }
    PeerEntry& entry = peers_[peer];
    session = EnsureSessionLocked(peer, entry, &dial);
    if (session->state() != SessionState::kOpening) return Future<void>(absl::OkStatus());
    entry.connecting.push_back(std::move(promise));
  }
  if (dial) StartDial(session);
  return future;
}

void NodeImpl::Disconnect(const std::string& peer, const absl::Status& why) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(peer);
    if (found != peers_.end()) session = found->second.session;
  }
  if (session != nullptr) session->Bury(why, /*say_goodbye=*/true);
}

void NodeImpl::Close(const absl::Status& why) {
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<std::shared_ptr<SelfCall>> self_calls;
  {
    MutexLock lock(mu_);
    if (closed_) return;
    closed_ = true;
    closed_why_ = why;
    for (const auto& [name, entry] : peers_) {
      if (entry.session != nullptr) sessions.push_back(entry.session);
    }
    for (const auto& [number, call] : self_calls_) self_calls.push_back(call);
  }
  for (const auto& session : sessions) session->Bury(why, /*say_goodbye=*/true);
  for (const auto& call : self_calls) call->CancelCall(0);
}

bool NodeImpl::DrainedLocked() const {
  return closed_ && link_count_ == 0 && session_count_ == 0 && self_calls_.empty();
}

bool NodeImpl::drained() const {
  MutexLock lock(mu_);
  return DrainedLocked();
}

absl::Status NodeImpl::Join(absl::Duration timeout) {
  BlockingRegion region;
  GW_RETURN_IF_ERROR(region.status());
  const absl::Time deadline = absl::Now() + timeout;
  MutexLock lock(mu_);
  while (!DrainedLocked()) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("agent ", self_.agent.name, ": ", link_count_, " connections, ",
                       session_count_, " sessions and ", self_calls_.size(),
                       " own calls have not ended within ", absl::FormatDuration(timeout)));
    }
    drained_cv_.WaitFor(mu_, left);
  }
  return absl::OkStatus();
}

void NodeImpl::DropListeners() {
  std::vector<std::unique_ptr<Listener>> listeners;
  MutexLock lock(mu_);
  listeners.swap(listeners_);
  lock.Unlock();
}

std::vector<PeerState> NodeImpl::Peers() const {
  std::vector<PeerState> peers;
  MutexLock lock(mu_);
  for (const auto& [name, entry] : peers_) {
    PeerState state;
    state.name = name;
    state.address = entry.address;
    if (entry.session != nullptr) {
      state.has_session = true;
      state.session_state = entry.session->state();
      state.calls_in_flight = entry.session->calls_in_flight();
      state.handlers_in_flight = entry.session->handlers_in_flight();
    }
    peers.push_back(std::move(state));
  }
  return peers;
}

// ---- NodeImpl: counting ----

bool NodeImpl::LinkOpened(bool pending_hello) {
  MutexLock lock(mu_);
  if (closed_) return false;
  if (pending_hello) {
    if (pending_hello_count_ >= limits().max_pending_hello_count) return false;
  }
  ++pending_hello_count_;
  ++link_count_;
  return true;
}

void NodeImpl::HelloEnded() {
  MutexLock lock(mu_);
  --pending_hello_count_;
}

void NodeImpl::LinkClosed() {
  MutexLock lock(mu_);
  --link_count_;
  if (DrainedLocked()) drained_cv_.NotifyAll();
}

}  // namespace gradwire::rpc
