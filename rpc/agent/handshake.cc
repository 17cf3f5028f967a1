#include "rpc/agent/handshake.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/agent/function_table.h"
#include "rpc/base/status.h"
#include "rpc/security/proof.h"

namespace gradwire::rpc {
namespace {

HelloTranscript Transcript(const Hello& hello, const HelloReply& reply) {
  HelloTranscript transcript;
  transcript.dialler = {hello.version_major, hello.version_minor, hello.job,
                        hello.name,          hello.incarnation,   hello.nonce};
  transcript.acceptor = {reply.version_major, reply.version_minor, reply.job,
                         reply.name,          reply.incarnation,   reply.nonce};
  transcript.session = hello.session;
  return transcript;
}

}  // namespace

std::string NewNonce(Rng& rng) {
  std::string nonce(kNonceBytes, '\0');
  rng.Fill({reinterpret_cast<std::byte*>(nonce.data()), nonce.size()});
  return nonce;
}

absl::Status CheckHello(const SelfIdentity& self, const Hello& hello) {
  if (hello.version_major != kVersionMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat("wire version ", hello.version_major, ".", hello.version_minor,
                     " is not spoken here, only ", kVersionMajor, ".x; update the older side"));
  }
  GW_RETURN_IF_ERROR(CheckName("agent name", hello.name));
  if (hello.nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the nonce has ", hello.nonce.size(), " bytes, not ", kNonceBytes));
  }
  if (hello.job != self.job) {
    return absl::FailedPreconditionError(absl::StrCat("this agent belongs to job ", self.job,
                                                      ", not to ", absl::CHexEscape(hello.job)));
  }
  if (!hello.expected_name.empty() && hello.expected_name != self.agent.name) {
    return absl::NotFoundError(absl::StrCat("this is agent ", self.agent.name, ", not ",
                                            absl::CHexEscape(hello.expected_name),
                                            "; check the address"));
  }
  if (hello.name == self.agent.name) {
    return absl::AlreadyExistsError(absl::StrCat(
        "the name ", self.agent.name, " is used twice: by this agent and by the caller"));
  }
  if (hello.incarnation == 0 || hello.session == 0) {
    return absl::InvalidArgumentError("incarnation and session must not be 0");
  }
  return absl::OkStatus();
}

HelloReply MakeHelloReply(const SelfIdentity& self, const Hello& hello, const absl::Status& refusal,
                          uint64_t seen, Rng& rng) {
  HelloReply reply;
  reply.version_major = kVersionMajor;
  reply.version_minor = kVersionMinor;
  reply.job = self.job;
  reply.name = self.agent.name;
  reply.incarnation = self.agent.incarnation.value;
  reply.status_code = static_cast<uint32_t>(refusal.code());
  reply.status_message = std::string(refusal.message());
  reply.nonce = NewNonce(rng);
  reply.seen = seen;
  if (refusal.ok() && !self.token.empty()) {
    reply.proof = HelloProof(self.token.Reveal(), HelloRole::kAcceptor, Transcript(hello, reply));
  }
  return reply;
}

absl::Status CheckHelloReply(const SelfIdentity& self, const Hello& hello,
                             const HelloReply& reply) {
  const std::string who = absl::CHexEscape(reply.name);
  if (reply.status_code != 0) {
    absl::Status refusal(static_cast<absl::StatusCode>(reply.status_code),
                         absl::StrCat("refused by ", who, ": ", reply.status_message));
    return refusal;
  }
  if (reply.version_major != kVersionMajor) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " speaks wire version ", reply.version_major, ".", reply.version_minor,
                     ", this agent ", kVersionMajor, ".", kVersionMinor));
  }
  GW_RETURN_IF_ERROR(CheckName("agent name", reply.name));
  if (reply.job != self.job) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " belongs to another job, ", absl::CHexEscape(reply.job)));
  }
  if (!hello.expected_name.empty() && reply.name != hello.expected_name) {
    return absl::NotFoundError(
        absl::StrCat("agent ", who, " answered, not ", hello.expected_name, "; check the address"));
  }
  if (reply.incarnation == 0 || reply.nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(who, " sent no incarnation or no nonce"));
  }
  if (self.token.empty()) {
    if (reply.proof.empty()) return absl::OkStatus();
    return absl::UnauthenticatedError(absl::StrCat(
        who, " asks for the job token, and this agent has none; start it with --token-file"));
  }
  if (reply.proof.empty()) {
    return absl::UnauthenticatedError(
        absl::StrCat(who, " has no job token; start it with this job's --token-file"));
  }
  if (!ConstantTimeEqual(reply.proof, HelloProof(self.token.Reveal(), HelloRole::kAcceptor,
                                                 Transcript(hello, reply)))) {
    return absl::UnauthenticatedError(
        absl::StrCat(who, " has another job token; both sides need the same --token-file"));
  }
  return absl::OkStatus();
}

HelloDone MakeHelloDone(const SelfIdentity& self, const Hello& hello, const HelloReply& reply) {
  HelloDone done;
  if (!self.token.empty()) {
    done.proof = HelloProof(self.token.Reveal(), HelloRole::kDialler, Transcript(hello, reply));
  }
  return done;
}

absl::Status CheckHelloDone(const SelfIdentity& self, const Hello& hello, const HelloReply& reply,
                            const HelloDone& done) {
  if (self.token.empty()) return absl::OkStatus();
  if (done.proof.empty()) {
    return absl::UnauthenticatedError(absl::StrCat("the job token is missing; start ", hello.name,
                                                   " with this job's --token-file"));
  }
  if (!ConstantTimeEqual(done.proof, HelloProof(self.token.Reveal(), HelloRole::kDialler,
                                                Transcript(hello, reply)))) {
    return absl::UnauthenticatedError(absl::StrCat("the job token is wrong; start ", hello.name,
                                                   " with this job's --token-file"));
  }
  return absl::OkStatus();
}

std::string MakeSessionKey(const SelfIdentity& self, const Hello& hello, const HelloReply& reply) {
  return SessionKey(self.token.Reveal(), Transcript(hello, reply));
}

}  // namespace gradwire::rpc
