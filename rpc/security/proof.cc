#include "rpc/security/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "rpc/base/status.h"

namespace gradwire::rpc {
namespace {

void PutUint(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(value >> shift));
}
void PutText(std::string& out, absl::string_view text) {
  PutUint(out, text.size());
  out.append(text.data(), text.size());
}
void PutSide(std::string& out, const HelloTranscript::Side& side) {
  PutUint(out, side.version_major);
  PutUint(out, side.version_minor);
  PutText(out, side.job);
  PutText(out, side.name);
  PutUint(out, side.incarnation);
  PutText(out, side.nonce);
}
std::string Labelled(absl::string_view label, const HelloTranscript& transcript) {
  std::string out;
  PutText(out, label);
  PutSide(out, transcript.dialler);
  PutSide(out, transcript.acceptor);
  PutUint(out, transcript.session);
  return out;
}

}  // namespace

std::string HmacSha256(absl::string_view key, absl::string_view message) {
  std::array<unsigned char, 32> out;
  unsigned int size = out.size();
  // An empty key is legal and means "no token"; HMAC() wants a non-null pointer for it.
  const void* const key_data = key.empty() ? static_cast<const void*>("") : key.data();
  GW_CHECK(HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(message.data()), message.size(), out.data(),
                &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(out.data()), size);
}

bool ConstantTimeEqual(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string HelloProof(absl::string_view token, HelloRole role, const HelloTranscript& transcript) {
  return HmacSha256(token, Labelled(role == HelloRole::kDialler ? "gradwire hello dialler"
                                                                : "gradwire hello acceptor",
                                    transcript));
}

std::string SessionKey(absl::string_view token, const HelloTranscript& transcript) {
  return HmacSha256(token, Labelled("gradwire session key", transcript));
}

std::string BulkProof(absl::string_view session_key, uint64_t session, absl::string_view nonce) {
  std::string message;
  PutText(message, "gradwire bulk");
  PutUint(message, session);
  PutText(message, nonce);
  return HmacSha256(session_key, message);
}

}  // namespace gradwire::rpc
