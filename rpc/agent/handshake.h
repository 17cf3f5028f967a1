// The hello: three messages that say who is there, prove it, and open or resume a session.
//
// Pure functions over the messages; the state machine around them is in control_link.h, the
// decisions that need the node's tables in node_admit.cc. Proofs: rpc/security/README.md, "Proof".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rpc/agent/call.h"
#include "rpc/agent/frame.h"
#include "rpc/base/id.h"
#include "rpc/base/rng.h"
#include "rpc/base/secret.h"

namespace gradwire::rpc {

// Wire version of this build. Same major required.
inline constexpr uint32_t kVersionMajor = 1;
inline constexpr uint32_t kVersionMinor = 0;
inline constexpr size_t kNonceBytes = 32;

// Who we are, as both hello messages say it.
struct SelfIdentity {
  std::string job;
  PeerIdentity agent;
  Secret token;  // empty: none
};

std::string NewNonce(Rng& rng);

// Whether a hello may be taken at all: version, job, names, nonce. The status is what the dialler
// is told.
absl::Status CheckHello(const SelfIdentity& self, const Hello& hello);

// The acceptor's answer, with its proof. `refusal` not OK: a refusal.
HelloReply MakeHelloReply(const SelfIdentity& self, const Hello& hello, const absl::Status& refusal,
                          uint64_t seen, Rng& rng);

// At the dialler: whether `reply` accepts, comes from whom we called, and proves the token. A
// refusal's status comes back with "refused by NAME: ".
absl::Status CheckHelloReply(const SelfIdentity& self, const Hello& hello, const HelloReply& reply);

HelloDone MakeHelloDone(const SelfIdentity& self, const Hello& hello, const HelloReply& reply);

// At the acceptor: UNAUTHENTICATED when the dialler's proof is wrong.
absl::Status CheckHelloDone(const SelfIdentity& self, const Hello& hello, const HelloReply& reply,
                            const HelloDone& done);

// The key that authenticates the bulk lanes of the session that this hello opened.
std::string MakeSessionKey(const SelfIdentity& self, const Hello& hello, const HelloReply& reply);

}  // namespace gradwire::rpc
