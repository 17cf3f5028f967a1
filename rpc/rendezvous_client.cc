#include "rpc/rendezvous_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/base/log.h"
#include "rpc/base/status.h"
#include "rpc/rendezvous_wire.h"

namespace gradwire::rpc {
namespace {

// The server, as our node calls it; it has another name for everybody else.
constexpr char kServer[] = "rendezvous";
// Between two attempts to join. The node itself waits between two dials.
constexpr absl::Duration kBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(2);
// The store answers by the time it was given; a call that takes that much longer was lost.
constexpr absl::Duration kGrace = absl::Seconds(5);

// Whether the way there, rather than the store, failed, and may work later.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

template <class R, class... Args>
Future<R> CallServer(Node& node, const BoundCall<R(Args...)>& call, absl::Duration timeout) {
  PayloadWriter out(Sharing::kCopy, {}, call.name());
  if (absl::Status encoded = call.Encode(out); !encoded.ok()) return Future<R>(std::move(encoded));
  auto promise = std::make_shared<Promise<R>>();
  Future<R> future = promise->future();
  const CallHandle handle = node.StartCall(
      kServer, node.Intern(call.name(), call.declaration()), out.TakePayload(),
      {.timeout = timeout}, [promise, name = call.name()](absl::StatusOr<ReceivedPayload> outcome) {
        if (outcome.ok()) {
          promise->Set(DecodeResult<R>(name, *std::move(outcome)));
        } else {
          promise->Set(outcome.status());
        }
      });
  if (!future.ready()) promise->OnCancel([handle] { handle.Cancel(); });
  return future;
}

}  // namespace

struct RendezvousClient::State : std::enable_shared_from_this<State> {
  // One Join, over as many attempts as it takes.
  struct Attempt {
    JoinRequest request;
    Promise<Membership> promise;
    absl::Time started;
    absl::Time deadline;
    bool again = false;  // of a process that was in already
    // Under the state's mu.
    absl::Duration backoff = kBackoff;
    bool asked = false;  // the store has the request: it says when the time is over
    absl::Status last;
    Future<WireJoined> call;
  };

  State(std::string server_address, Clock* clock_to_use, absl::Duration join_timeout)
      : address(std::move(server_address)), clock(clock_to_use), max_goodbye(join_timeout) {}

  Future<Membership> Join(JoinRequest request, bool again) GW_EXCLUDES(mu);
  void Try(const std::shared_ptr<Attempt>& attempt) GW_EXCLUDES(mu);
  void Ask(const std::shared_ptr<Attempt>& attempt) GW_EXCLUDES(mu);
  void Answered(const std::shared_ptr<Attempt>& attempt, uint64_t sessions_ended_before,
                const absl::StatusOr<WireJoined>& answer) GW_EXCLUDES(mu);
  void TryAgain(const std::shared_ptr<Attempt>& attempt, const absl::Status& why) GW_EXCLUDES(mu);
  void OnDeadline(const std::shared_ptr<Attempt>& attempt) GW_EXCLUDES(mu);
  absl::Status Unreachable(const Attempt& attempt) GW_REQUIRES(mu);
  void OnSessionEnd(const absl::Status& why) GW_EXCLUDES(mu);
  void JoinAgain(const absl::Status& why) GW_EXCLUDES(mu);
  Future<Member> Find(WireFind find);
  // Whether the server has a session with us just now; inside the gate.
  bool connected() const;
  absl::Status NotConnected() const {
    return absl::UnavailableError(
        absl::StrCat("the rendezvous at ", address, " isn't connected just now"));
  }

  const std::string address;
  Clock* const clock;
  const absl::Duration max_goodbye;
  // Whoever is inside may use `node`.
  Gate gate;
  Node* node = nullptr;  // set before anything runs

  Mutex mu;
  uint64_t sessions_ended GW_GUARDED_BY(mu) = 0;
  bool joining_again GW_GUARDED_BY(mu) = false;
  // What this process has joined as, with its incarnation: until it leaves.
  std::optional<JoinRequest> registered GW_GUARDED_BY(mu);
};

Future<Membership> RendezvousClient::State::Join(JoinRequest request, bool again) {
  auto attempt = std::make_shared<Attempt>();
  attempt->again = again;
  attempt->started = clock->Now();
  attempt->deadline = attempt->started + request.timeout;
  attempt->request = std::move(request);
  Future<Membership> future = attempt->promise.future();
  attempt->promise.OnCancel([self = shared_from_this(), weak = std::weak_ptr(attempt)] {
    const auto attempt = weak.lock();
    if (attempt == nullptr) return;
    Future<WireJoined> call;
    {
      MutexLock lock(self->mu);
      call = attempt->call;
    }
    if (call.valid()) call.Cancel();
  });
  if (attempt->deadline != absl::InfiniteFuture()) {
    clock->CallAt(attempt->deadline,
                  [weak = weak_from_this(), weak_attempt = std::weak_ptr(attempt)] {
                    const auto self = weak.lock();
                    const auto attempt = weak_attempt.lock();
                    if (self != nullptr && attempt != nullptr) self->OnDeadline(attempt);
                  });
  }
  Try(attempt);
  return future;
}

void RendezvousClient::State::Try(const std::shared_ptr<Attempt>& attempt) {
  if (attempt->promise.done()) return;  // cancelled, or its time was over
  const Gate::Pass pass = gate.TryEnter();
  if (!pass) {
    attempt->promise.Set(absl::UnavailableError("the rendezvous was left"));
    return;
  }
  node->Connect(kServer).OnReady(
      [self = shared_from_this(), attempt](const absl::Status& connected) {
        if (connected.ok()) {
          self->Ask(attempt);
        } else {
          self->TryAgain(attempt, connected);
        }
      });
}

void RendezvousClient::State::Ask(const std::shared_ptr<Attempt>& attempt) {
  const Gate::Pass pass = gate.TryEnter();
  if (!pass || attempt->promise.done()) return Try(attempt);
  const absl::Duration left = attempt->deadline - clock->Now();
  WireJoin wire = ToWire(attempt->request);
  wire.timeout = std::max(left, absl::ZeroDuration());
  uint64_t ended = 0;
  {
    MutexLock lock(mu);
    ended = sessions_ended;
    attempt->asked = true;
  }
  const Future<WireJoined> call =
      CallServer(*node, kRendezvousJoin(std::move(wire)), std::max(left, kGrace) + kGrace);
  {
    MutexLock lock(mu);
    attempt->call = call;
  }
  call.OnReady(
      [self = shared_from_this(), attempt, ended](const absl::StatusOr<WireJoined>& answer) {
        self->Answered(attempt, ended, answer);
      });
  if (attempt->promise.done()) call.Cancel();
}

void RendezvousClient::State::Answered(const std::shared_ptr<Attempt>& attempt,
                                       uint64_t sessions_ended_before,
                                       const absl::StatusOr<WireJoined>& answer) {
  if (!answer.ok()) return TryAgain(attempt, answer.status());
  const absl::StatusOr<Membership> joined = FromWire(*answer);
  // The server ends; another one may come.
  if (absl::IsUnavailable(joined.status())) return TryAgain(attempt, joined.status());
  bool lost = false;
  {
    MutexLock lock(mu);
    if (attempt->again) joining_again = false;
    // Who has left meanwhile isn't in again.
    if (joined.ok() && (!attempt->again || registered.has_value())) {
      registered = attempt->request;
      registered->incarnation = joined->self.incarnation;
      registered->rank = joined->self.rank;
      lost = sessions_ended != sessions_ended_before;
    }
  }
  attempt->promise.Set(joined);
  if (lost) JoinAgain(absl::UnavailableError("the session ended"));
}

void RendezvousClient::State::TryAgain(const std::shared_ptr<Attempt>& attempt,
                                       const absl::Status& why) {
  if (!gate.TryEnter() || !MayPass(why)) {
    {
      MutexLock lock(mu);
      if (attempt->again) joining_again = false;
    }
    // Only a function can be what isn't found: any agent is welcome there.
    attempt->promise.Set(
        absl::IsNotFound(why)
            ? absl::FailedPreconditionError(absl::StrCat(
                  "the agent at ", address,
                  " serves no rendezvous; give the address of the one that does, or start that one "
                  "with --serve-rendezvous"))
            : WithContext(why, absl::StrCat("the rendezvous at ", address)));
    return;
  }
  absl::Duration backoff;
  {
    MutexLock lock(mu);
    attempt->asked = false;
    attempt->last = why;
    backoff = attempt->backoff;
    attempt->backoff = std::min(attempt->backoff * 2, kMaxBackoff);
  }
  if (clock->Now() >= attempt->deadline) return OnDeadline(attempt);
  clock->CallAfter(backoff, [weak = weak_from_this(), attempt] {
    if (const auto self = weak.lock()) self->Try(attempt);
  });
}

void RendezvousClient::State::OnDeadline(const std::shared_ptr<Attempt>& attempt) {
  absl::Status why;
  {
    MutexLock lock(mu);
    if (attempt->asked) return;
    why = Unreachable(*attempt);
  }
  attempt->promise.Set(why);
}

absl::Status RendezvousClient::State::Unreachable(const Attempt& attempt) {
  return absl::DeadlineExceededError(absl::StrCat(
      attempt.request.name, " waited ",
      absl::FormatDuration(absl::Trunc(clock->Now() - attempt.started, absl::Milliseconds(1))),
      " for the rendezvous at ", address,
      attempt.last.ok() ? ", which doesn't answer"
                        : absl::StrCat(", which can't be reached (", attempt.last.message(), ")"),
      "; start the agent that listens there, or wait longer with --join-timeout; an agent that "
      "listens there under another name of the host serves with --serve-rendezvous"));
}

// ---- after the join ----

void RendezvousClient::State::OnSessionEnd(const absl::Status& why) {
  {
    MutexLock lock(mu);
    ++sessions_ended;
  }
  JoinAgain(why);
}

void RendezvousClient::State::JoinAgain(const absl::Status& why) {
  std::optional<JoinRequest> request;
  {
    MutexLock lock(mu);
    if (!registered.has_value() || joining_again) return;
    joining_again = true;
    request = registered;
  }
  GW_LOG(INFO) << "the rendezvous is lost; calls go on, joins wait" << Kv("agent", request->name)
               << Kv("rendezvous", address) << Kv("why", why.message());
  const std::string name = request->name;
  request->timeout = absl::InfiniteDuration();
  Join(*std::move(request), /*again=*/true)
      .OnReady([name](const absl::StatusOr<Membership>& joined) {
        if (joined.ok()) {
          GW_LOG(INFO) << "joined the rendezvous again" << Kv("agent", name);
        } else if (!absl::IsUnavailable(joined.status())) {
          GW_LOG(WARNING) << "the rendezvous doesn't let this agent in again" << Kv("agent", name)
                          << Kv("why", joined.status().ToString());
        }
      });
}

bool RendezvousClient::State::connected() const {
  for (const PeerState& peer : node->Peers()) {
    if (peer.has_session && peer.session_state == SessionState::kAttached) return true;
  }
  return false;
}

Future<Member> RendezvousClient::State::Find(WireFind find) {
  const Gate::Pass pass = gate.TryEnter();
  if (!pass || !connected()) return Future<Member>(NotConnected());
  const absl::Duration timeout = find.timeout + kGrace;
  return CallServer(*node, kRendezvousFind(std::move(find)), timeout)
      .ThenInline([](const absl::StatusOr<WireFound>& found) -> absl::StatusOr<Member> {
        if (!found.ok()) return found.status();
        return FromWire(*found);
      });
}

// ---- the store ----

absl::StatusOr<std::unique_ptr<RendezvousClient>> RendezvousClient::Create(
    RendezvousClientOptions options) {
  auto state = std::make_shared<State>(options.address, options.node.clock,
                                       options.node.limits.join_timeout);
  NodeOptions& node = options.node;
  node.name = absl::StrFormat("%s%016x/%s", kRendezvousCallerPrefix, node.rng->Next(),
                              options.self.substr(0, 80));
  node.incarnation = Incarnation{static_cast<uint64_t>(node.clock->WallNowNanos())};
  node.functions = nullptr;
  node.resolve = nullptr;
  node.on_session_end = [weak = std::weak_ptr(state)](const PeerIdentity&, SessionId,
                                                      const absl::Status& why) {
    if (const auto self = weak.lock()) self->OnSessionEnd(why);
  };
  GW_ASSIGN_OR_RETURN(std::unique_ptr<Node> made, Node::Create(std::move(node)));
  GW_RETURN_IF_ERROR(made->AddPeer(kServer, options.address, /*any_name=*/true));
  state->node = made.get();
  return std::unique_ptr<RendezvousClient>(new RendezvousClient(std::move(state), std::move(made)));
}

RendezvousClient::RendezvousClient(std::shared_ptr<State> state, std::unique_ptr<Node> node)
    : state_(std::move(state)), node_(std::move(node)) {}

RendezvousClient::~RendezvousClient() {
  {
    MutexLock lock(state_->mu);
    state_->registered.reset();
  }
  state_->gate.Close();
  // What is inside starts a call or looks at a table; it doesn't wait.
  (void)state_->gate.Wait(absl::Seconds(10));
  node_->Close(absl::UnavailableError("left"));
  (void)node_->Join(std::min(state_->max_goodbye, absl::Seconds(2)));
}

Future<Membership> RendezvousClient::Join(JoinRequest request) {
  if (absl::Status bad = CheckJoinRequest(request); !bad.ok()) {
    return Future<Membership>(std::move(bad));
  }
  return state_->Join(std::move(request), /*again=*/false);
}

Future<Member> RendezvousClient::Resolve(const std::string& name, absl::Duration timeout) {
  if (absl::Status bad = CheckMemberName(name); !bad.ok()) return Future<Member>(std::move(bad));
  return state_->Find({.name = name, .rank = kNoRank, .timeout = timeout});
}

Future<Member> RendezvousClient::ResolveRank(int rank, absl::Duration timeout) {
  if (absl::Status bad = CheckRank(rank); !bad.ok()) return Future<Member>(std::move(bad));
  return state_->Find({.name = "", .rank = rank, .timeout = timeout});
}

Future<void> RendezvousClient::Leave(const std::string& name, Incarnation incarnation) {
  {
    MutexLock lock(state_->mu);
    state_->registered.reset();
  }
  const Gate::Pass pass = state_->gate.TryEnter();
  if (!pass || !state_->connected()) return Future<void>(state_->NotConnected());
  return CallServer(*node_, kRendezvousLeave(name, incarnation.value), kGrace)
      .ThenInline([](const absl::StatusOr<WireVerdict>& left) {
        return left.ok() ? FromWire(*left) : left.status();
      });
}

}  // namespace gradwire::rpc
