// ParameterServer: the tables of one server process, and the functions that workers call.
//
//   GW_ASSIGN_OR_RETURN(auto ps, server::ParameterServer::Create({}));
//   rpc::Registry functions;
//   ps->Bind(functions);                       // beside the user's own
//   GW_ASSIGN_OR_RETURN(auto agent, rpc::Agent::Start({.name = "ps0", .functions = functions}));
//
// Asynchronous: a push is applied when it arrives, a pull sees what was applied; neither waits for
// other workers. What a request means: server/verbs/README.md.
//
// Ownership:     owns tables, owner threads and memory. Outlives the agent that serves it: destroy
//                the agent first.
// Thread-safety: all methods thread-safe.
// Limits:        memory_limit_bytes -> RESOURCE_EXHAUSTED before it is reached; kMaxTableCount.
// Errors:        INVALID_ARGUMENT: an option.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "rpc/registry.h"
#include "server/verbs/verbs.h"

namespace gradwire::server {

// 4 096 tables of one job: above any model seen; bounds what a client can make the server keep.
inline constexpr size_t kMaxTableCount = 4096;

// What happens to a gradient with a NaN or an infinity in it.
enum class NonFinite {
  kRefuse,  // the push fails: INVALID_ARGUMENT with the place
  kClip,    // NaN counts as 0, infinities as the largest float
  kSkip,    // the push changes nothing and succeeds
};

struct ParameterServerOptions {
  // Default: 0: half of the cores, at least 1. Threads that own rows and blocks.
  size_t owner_count = 0;
  // Default: 0: none. Bytes of all tables together.
  size_t memory_limit_bytes = 0;
  NonFinite nonfinite = NonFinite::kRefuse;
};

class State;

class ParameterServer {
 public:
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Create(
      const ParameterServerOptions& options);
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  // Binds the verbs.
  void Bind(rpc::Registry& functions);

  ServerStatistics Statistics() const;

 private:
  explicit ParameterServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace gradwire::server
