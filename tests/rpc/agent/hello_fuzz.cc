// The hello's messages: ours against libprotobuf, and what decides about them never fails.
//
// Input: bytes as they come, or (first byte odd) a seed for a right message that is then damaged.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "rpc/agent/handshake.h"
#include "rpc/base/status.h"
#include "tests/rpc/agent/frame_oracle.h"

namespace gradwire::rpc::testing {
namespace {

void Demand(const std::string& complaint) {
  if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
  GW_CHECK(complaint.empty());
}

// Nothing that a peer says in a hello may do more than be refused, and nobody without the token is
// accepted.
void Decide(absl::string_view message, Rng& rng) {
  FrameView view;
  if (!ParseFrame(Buffer::Copy(AsBytes(message)), view, /*max_items=*/0).ok()) return;
  SelfIdentity self;
  self.job = "default";
  self.agent = {"me", Incarnation{5}};
  self.token = Secret("a job token of some length");
  Hello hello;
  hello.name = "me";
  hello.job = self.job;
  hello.nonce = NewNonce(rng);
  if (view.hello) {
    const absl::Status checked = CheckHello(self, *view.hello);
    const HelloReply reply = MakeHelloReply(self, *view.hello, checked, 0, rng);
    GW_CHECK(reply.proof.empty() != checked.ok());
  }
  if (view.hello_reply) GW_CHECK(!CheckHelloReply(self, hello, *view.hello_reply).ok());
  if (view.hello_done) {
    const HelloReply reply = MakeHelloReply(self, hello, absl::OkStatus(), 0, rng);
    GW_CHECK(!CheckHelloDone(self, hello, reply, *view.hello_done).ok());
  }
}

void Try(absl::string_view input) {
  if (input.empty()) return;
  const bool made = (input[0] & 1) != 0;
  input.remove_prefix(1);
  uint64_t seed = 0;
  std::memcpy(&seed, input.data(), std::min(input.size(), sizeof(seed)));
  SeededRng rng(seed);
  if (!made) {
    Demand(CheckFrame(input));
    Decide(input, rng);
    return;
  }
  std::string complaint;
  std::string message = RandomHelloFrame(rng, &complaint);
  Demand(complaint);
  message = Damage(std::move(message), rng);
  Demand(CheckFrame(message));
  Decide(message, rng);
}

}  // namespace
}  // namespace gradwire::rpc::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gradwire::rpc::testing::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
