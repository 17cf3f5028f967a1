// What a bound function is to the agent: bytes in, bytes out, once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/id.h"
#include "rpc/tensor/payload.h"

namespace gradwire::rpc {

// Where a function runs.
enum class Run {
  kExecutor,  // on the agent's executor; may block
  kInline,    // on the polling thread that read the request; short, must not block
};
inline constexpr Run kInline = Run::kInline;
inline constexpr Run kExecutor = Run::kExecutor;

// One call as its handler sees it. Copyable handle; outlives the call harmlessly.
// Thread-safety: all methods thread-safe.
class CallInfo {
 public:
  virtual ~CallInfo() = default;
  // Name and incarnation of the agent that called.
  virtual const std::string& caller() const = 0;
  virtual Incarnation caller_incarnation() const = 0;
  virtual const std::string& function() const = 0;
  // When the caller stops waiting, on the agent's clock.
  virtual absl::Time deadline() const = 0;
  // The caller cancelled, its deadline passed, or its session ended: nobody reads the result any
  // more.
  virtual bool cancelled() const = 0;
  // Runs `fn` once when cancelled() turns true (at once if it is); short, on any thread.
  virtual void OnCancel(absl::AnyInvocable<void()> fn) = 0;
};

// Sends the outcome of a call. Exactly one call of it counts; later ones are ignored. Any thread.
// Dropped without being called: the caller gets INTERNAL naming the function.
using ReplyFn = absl::AnyInvocable<void(absl::StatusOr<Payload>)>;

// Runs one call. `info` lives at least until the reply; hold it as long as you need it.
using Handler =
    std::function<void(std::shared_ptr<CallInfo> info, ReceivedPayload arguments, ReplyFn reply)>;

// A row of the registry.
struct BoundFunction {
  std::string name;         // "demo.add": 1 to 128 characters of [A-Za-z0-9_.-/]
  std::string declaration;  // "Tensor(Tensor, Tensor)": the type fingerprint, compared as text
  std::string place;        // "file.cc:12", where it was bound, for messages
  Run run = Run::kExecutor;
  // Run again on a retry instead of keeping its result (pulls, reads).
  bool repeatable = false;
  Handler handler;
};

}  // namespace gradwire::rpc
