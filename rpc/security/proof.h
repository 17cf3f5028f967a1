// Proofs of the hello: HMAC-SHA256 (RFC 2104, FIPS 180-4) with the job token.
//
// Which bytes in which order: README.md of this folder, "Proof". Computed with OpenSSL's libcrypto.
// Thread-safety: stateless.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gradwire::rpc {

// 32 bytes.
std::string HmacSha256(absl::string_view key, absl::string_view message);

// Whether two proofs are equal; the time it takes depends on their lengths alone.
bool ConstantTimeEqual(absl::string_view a, absl::string_view b);

// What both sides said in messages 1 and 2 of the hello.
struct HelloTranscript {
  struct Side {
    uint32_t version_major = 0;
    uint32_t version_minor = 0;
    std::string job;
    std::string name;
    uint64_t incarnation = 0;
    std::string nonce;
  };
  Side dialler;
  Side acceptor;
  uint64_t session = 0;
};

// The role is part of the proof, so that one can't be sent back to its maker.
enum class HelloRole { kDialler, kAcceptor };

std::string HelloProof(absl::string_view token, HelloRole role, const HelloTranscript& transcript);

// Authenticates the bulk lanes of the session; never leaves the process.
std::string SessionKey(absl::string_view token, const HelloTranscript& transcript);

std::string BulkProof(absl::string_view session_key, uint64_t session, absl::string_view nonce);

}  // namespace gradwire::rpc
