// NodeImpl: who gets a session, and how one is reached.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/agent/bulk_link.h"
#include "rpc/agent/control_link.h"
#include "rpc/agent/node_impl.h"

namespace gradwire::rpc {
namespace {
// Names of which an incarnation is remembered; bounds what callers with ever new names leave
// behind.
constexpr size_t kMaxPeers = 65536;

// A refusal that another attempt can't change.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}
}  // namespace

// ---- as the acceptor ----

NodeImpl::Verdict NodeImpl::JudgeLocked(const Hello& hello) {
  Verdict verdict;
  if (closed_) {
    verdict.refusal = absl::UnavailableError("this agent is leaving");
    return verdict;
  }
  const Incarnation theirs{hello.incarnation};
  const auto found = peers_.find(hello.name);
  if (found == peers_.end()) {
    if (hello.resume) {
      verdict.refusal = absl::NotFoundError("the session to resume is not known here");
    } else if (peers_.size() >= kMaxPeers) {
      verdict.refusal = absl::ResourceExhaustedError("too many different peers");
    }
    return verdict;
  }
  PeerEntry& entry = found->second;
  if (theirs < entry.last_incarnation) {
    verdict.refusal = absl::FailedPreconditionError(
        absl::StrCat("incarnation ", theirs.value, " of ", hello.name, " is over; ",
                     entry.last_incarnation.value,
                     " has been seen: it was restarted, or the name is used twice"));
    return verdict;
  }
  const std::shared_ptr<Session>& existing = entry.session;
  const SessionState state = existing == nullptr ? SessionState::kBuried : existing->state();
  if (state == SessionState::kBuried) {
    if (hello.resume) verdict.refusal = absl::NotFoundError("the session to resume is over");
    return verdict;
  }
  if (state == SessionState::kOpening) {
    if (entry.dialling && self_.agent.name < hello.name) {
      // Both dial at this moment; the dial of the smaller name survives. So for a resume, too: it
      // may be of a session whose opening was refused here by this rule, after its reply said yes.
      verdict.refusal = absl::AbortedError(
          absl::StrCat("dial race: the connection that ", self_.agent.name, " opens is kept"));
    } else if (hello.resume) {
      verdict.refusal = absl::NotFoundError("the session to resume is over");
    } else {
      verdict.adopt = existing;
    }
    return verdict;
  }
  const Incarnation known = existing->peer_incarnation();
  if (known < theirs) {
    verdict.bury = existing;
    verdict.bury_why = absl::AbortedError(
        absl::StrCat(hello.name, " was restarted (incarnation ", known.value, " -> ", theirs.value,
                     "); what was in flight may or may not have run"));
    if (hello.resume) verdict.refusal = absl::NotFoundError("the session to resume is over");
    return verdict;
  }
  if (hello.resume) {
    if (existing->id().value == hello.session) {
      verdict.resume = existing;
    } else {
      verdict.refusal = absl::NotFoundError("the session to resume is over");
    }
    return verdict;
  }
  // A new session of the same two incarnations: the dialler has none, so it gave this one up,
  // unless it has not yet heard of it.
  const bool given_up = hello.buried_session == existing->id().value || !existing->dialled_here();
  if (!given_up && hello.name < self_.agent.name && existing->untouched()) {
    // Dial race, late: our dial was accepted, but theirs has the smaller name and they never took
    // ours (else they would not dial). Nothing has run on ours; what waits in it moves over.
    verdict.adopt = existing;
    return verdict;
  }
  if (!given_up) {
    verdict.refusal = absl::AbortedError(
        absl::StrCat("a session that ", self_.agent.name, " opened exists already"));
    return verdict;
  }
  verdict.bury = existing;
  verdict.bury_why =
      absl::UnavailableError(absl::StrCat(hello.name, " gave the session up and opened a new one"));
  return verdict;
}

absl::Status NodeImpl::AdmitHello(const Hello& hello, uint64_t* seen) {
  MutexLock lock(mu_);
  const Verdict verdict = JudgeLocked(hello);
  if (verdict.refusal.ok() && verdict.resume != nullptr) *seen = verdict.resume->seen();
  return verdict.refusal;
}

absl::StatusOr<NodeImpl::Committed> NodeImpl::CommitHello(const Hello& hello,
                                                          const HelloReply& reply,
                                                          std::shared_ptr<Connection> connection) {
  Committed committed;
  Verdict verdict;
  {
    MutexLock lock(mu_);
    verdict = JudgeLocked(hello);
    if (!verdict.refusal.ok() && verdict.bury == nullptr) return verdict.refusal;
    if (verdict.refusal.ok()) {
      PeerEntry& entry = peers_[hello.name];
      entry.last_incarnation = std::max(entry.last_incarnation, Incarnation{hello.incarnation});
      if (verdict.resume != nullptr) {
        committed.session = verdict.resume;
      } else if (verdict.adopt != nullptr) {
        committed.session = verdict.adopt;
      } else {
        if (session_count_ >= limits().max_session_count) {
          return absl::ResourceExhaustedError(
              absl::StrCat(session_count_, " sessions are open here (max_session_count)"));
        }
        committed.session = std::make_shared<Session>(env_, hello.name, weak_from_this());
        ++session_count_;
        entry.session = committed.session;
      }
      sessions_[hello.session] = committed.session;
    }
  }
  if (verdict.bury != nullptr) verdict.bury->Bury(verdict.bury_why, /*say_goodbye=*/false);
  if (!verdict.refusal.ok()) return verdict.refusal;
  Session::Attachment attachment;
  attachment.id = SessionId{hello.session};
  attachment.peer = {hello.name, Incarnation{hello.incarnation}};
  attachment.dialled_here = false;
  attachment.peer_seen = hello.seen;
  if (verdict.resume == nullptr) attachment.session_key = MakeSessionKey(self_, hello, reply);
  attachment.connection = std::move(connection);
  committed.link = committed.session->Attach(std::move(attachment));
  if (committed.link == 0) return absl::AbortedError("the session ended meanwhile");
  OnAttached(committed.session);
  return committed;
}

std::shared_ptr<Session> NodeImpl::FindSession(SessionId id) const {
  MutexLock lock(mu_);
  const auto found = sessions_.find(id.value);
  return found == sessions_.end() ? nullptr : found->second.lock();
}

// ---- as the dialler ----

void NodeImpl::StartDial(const std::shared_ptr<Session>& session) {
  std::string address;
  bool ask = false;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session || closed_) return;
    PeerEntry& entry = found->second;
    entry.dialling = true;
    ++entry.attempts;
    address = entry.address;
    // Nobody was there: the peer may have moved. An alias is known to us alone.
    ask = address.empty() || (entry.attempts > 1 && !entry.any_name);
  }
  if (!address.empty() && (!ask || !options_.resolve)) return DialAt(session, address);
  if (!options_.resolve) {
    DialFailed(session, session->id(),
               absl::NotFoundError(absl::StrCat("no address is known for ", session->peer_name(),
                                                "; give one, or start with a rendezvous")),
               std::nullopt);
    return;
  }
  options_.resolve(session->peer_name())
      .OnReady(
          [self = shared_from_this(), session, address](const absl::StatusOr<std::string>& found) {
            if (!found.ok() && address.empty()) {
              self->DialFailed(session, session->id(), found.status(), std::nullopt);
              return;
            }
            // Sessions don't depend on the rendezvous: without it the old address is tried again.
            const std::string& at = found.ok() ? *found : address;
            if (at != address)
              (void)self->AddPeer(session->peer_name(), at, /*any_name=*/false, {});
            self->DialAt(session, at);
          });
}

void NodeImpl::DialAt(const std::shared_ptr<Session>& session, const std::string& address) {
  Hello hello;
  hello.version_major = kVersionMajor;
  hello.version_minor = kVersionMinor;
  hello.job = self_.job;
  hello.name = self_.agent.name;
  hello.incarnation = self_.agent.incarnation.value;
  hello.nonce = NewNonce(rng());
  const SessionState state = session->state();
  if (state == SessionState::kAttached || state == SessionState::kBuried) return;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session || closed_) return;
    PeerEntry& entry = found->second;
    hello.expected_name = entry.any_name ? "" : session->peer_name();
    hello.resume = state == SessionState::kDetached;
    hello.session = hello.resume ? session->id().value : std::max<uint64_t>(1, rng().Next());
    hello.seen = hello.resume ? session->seen() : 0;
    hello.buried_session = entry.last_buried.value;
  }
  if (!LinkOpened(/*pending_hello=*/false)) return;
  auto link = std::make_shared<ControlLink>(shared_from_this(), session, std::move(hello));
  link->Start(options_.transport->Dial(address, Lane::kControl, link, limits().connect_timeout));
}

uint64_t NodeImpl::DialAccepted(const std::shared_ptr<Session>& session, const Hello& hello,
                                const HelloReply& reply, std::shared_ptr<Connection> connection) {
  const Incarnation theirs{reply.incarnation};
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session || closed_) return 0;
    PeerEntry& entry = found->second;
    if (!hello.resume && session->state() != SessionState::kOpening) return 0;
    if (theirs < entry.last_incarnation) return 0;
    entry.last_incarnation = theirs;
    sessions_[hello.session] = session;
  }
  Session::Attachment attachment;
  attachment.id = SessionId{hello.session};
  attachment.peer = {reply.name, theirs};
  attachment.dialled_here = true;
  attachment.peer_seen = reply.seen;
  if (!hello.resume) attachment.session_key = MakeSessionKey(self_, hello, reply);
  attachment.connection = std::move(connection);
  const uint64_t link = session->Attach(std::move(attachment));
  if (link != 0) OnAttached(session);
  return link;
}

void NodeImpl::DialFailed(const std::shared_ptr<Session>& session, SessionId tried,
                          const absl::Status& why, std::optional<Incarnation> refused_by) {
  const SessionState state = session->state();
  session->NoteDialFailure(why);
  absl::Status bury;
  absl::Duration backoff;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session) return;
    PeerEntry& entry = found->second;
    // Between two attempts no dial is under way: the peer's own is welcome.
    entry.dialling = false;
    if (state != SessionState::kOpening && state != SessionState::kDetached) return;
    entry.last_failure = why;
    const absl::Duration elapsed = clock().Now() - entry.dial_started;
    if (state == SessionState::kOpening) {
      // Somebody else at the address that we knew: the rendezvous is asked before that is believed.
      const bool ask = options_.resolve && !entry.any_name && absl::IsNotFound(why) &&
                       entry.attempts == 1 && !entry.address.empty();
      if (IsFinal(why) && !ask) {
        bury = why;
      } else if (elapsed >= limits().connect_timeout) {
        bury = absl::UnavailableError(
            absl::StrCat(session->peer_name(), entry.address.empty() ? "" : " at ", entry.address,
                         " can't be reached (", entry.attempts, " attempts in ",
                         absl::FormatDuration(absl::Trunc(elapsed, absl::Milliseconds(1))),
                         "): ", why.message(), "; is it running, and is the address right?"));
      }
    } else if (refused_by && *refused_by > session->peer_incarnation()) {
      bury = absl::AbortedError(absl::StrCat(
          session->peer_name(), " was restarted (incarnation ", session->peer_incarnation().value,
          " -> ", refused_by->value, "); what was in flight may or may not have run"));
    } else if (refused_by && IsFinal(why)) {
      bury = absl::UnavailableError(
          absl::StrCat(session->peer_name(), " has given the session up: ", why.message()));
    }
    if (bury.ok()) {
      backoff = entry.backoff;
      entry.backoff = std::min(entry.backoff * 2, limits().dial_backoff_max);
    }
  }
  if (!bury.ok()) {
    session->BuryUnlessReached(tried, bury);
    return;
  }
  clock().CallAfter(backoff, [weak = weak_from_this(), weak_session = std::weak_ptr(session)] {
    auto self = weak.lock();
    auto session = weak_session.lock();
    if (self == nullptr || session == nullptr) return;
    const SessionState state = session->state();
    if (state == SessionState::kOpening || state == SessionState::kDetached) {
      self->StartDial(session);
    }
  });
}

void NodeImpl::OnAttached(const std::shared_ptr<Session>& session) {
  std::vector<Promise<void>> connected;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found != peers_.end() && found->second.session == session) {
      found->second.dialling = false;
      connected.swap(found->second.connecting);
    }
  }
  for (Promise<void>& promise : connected) promise.Set(absl::OkStatus());
  if (session->dialled_here()) DialBulk(session);
}

void NodeImpl::DialBulk(const std::shared_ptr<Session>& session) {
  std::string address;
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session || closed_) return;
    if (found->second.bulk_dialling || session->has_bulk()) return;
    found->second.bulk_dialling = true;
    address = found->second.address;
  }
  const auto dial = [self = shared_from_this(), session](const std::string& at) {
    if (!self->LinkOpened(/*pending_hello=*/false)) return;
    auto link = std::make_shared<BulkLink>(self, session);
    link->Start(
        self->options_.transport->Dial(at, Lane::kBulk, link, self->limits().connect_timeout));
  };
  if (!address.empty()) return dial(address);
  options_.resolve(session->peer_name())
      .OnReady([self = shared_from_this(), session, dial](const absl::StatusOr<std::string>& at) {
        if (at.ok()) {
          dial(*at);
        } else {
          self->BulkDialFailed(session);
        }
      });
}

void NodeImpl::BulkDialFailed(const std::shared_ptr<Session>& session) {
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session) return;
    found->second.bulk_dialling = false;
  }
  clock().CallAfter(limits().dial_backoff_min,
                    [weak = weak_from_this(), weak_session = std::weak_ptr(session)] {
                      auto self = weak.lock();
                      auto session = weak_session.lock();
                      if (self == nullptr || session == nullptr) return;
                      if (session->state() == SessionState::kAttached) self->DialBulk(session);
                    });
}

// ---- what sessions report ----

void NodeImpl::OnDetached(const std::shared_ptr<Session>& session, const absl::Status&) {
  if (!session->dialled_here()) return;  // the other side comes back
  {
    MutexLock lock(mu_);
    const auto found = peers_.find(session->peer_name());
    if (found == peers_.end() || found->second.session != session || closed_) return;
    PeerEntry& entry = found->second;
    entry.dial_started = clock().Now();
    entry.backoff = limits().dial_backoff_min;
    entry.attempts = 0;
  }
  StartDial(session);
}

void NodeImpl::OnBulkLost(const std::shared_ptr<Session>& session) {
  if (session->dialled_here()) BulkDialFailed(session);
}

void NodeImpl::OnBuried(const std::shared_ptr<Session>& session, const absl::Status& why) {
  std::vector<Promise<void>> connecting;
  const SessionId id = session->id();
  {
    MutexLock lock(mu_);
    sessions_.erase(id.value);
    --session_count_;
    const auto found = peers_.find(session->peer_name());
    if (found != peers_.end() && found->second.session == session) {
      PeerEntry& entry = found->second;
      entry.session = nullptr;
      entry.dialling = false;
      entry.bulk_dialling = false;
      if (id.value != 0) entry.last_buried = id;
      connecting.swap(entry.connecting);
    }
    if (DrainedLocked()) drained_cv_.NotifyAll();
  }
  for (Promise<void>& promise : connecting) promise.Set(why);
  if (options_.on_session_end) {
    options_.on_session_end({session->peer_name(), session->peer_incarnation()}, id, why);
  }
}

}  // namespace gradwire::rpc
