// Dense: a module's parameters, kept on the parameter servers.
//
//   GW_ASSIGN_OR_RETURN(auto weights, client.Dense("mlp", model->parameters(), {.rule = …}));
//   GW_RETURN_IF_ERROR(weights.Pull());       // newest weights, in place
//   … forward, backward …
//   GW_RETURN_IF_ERROR(weights.Push());       // takes the gradients; the servers run the rule
//
// Pull writes into the parameters' memory and counts their versions up: a pull between forward and
// backward makes backward raise instead of computing with weights of two ages. Push takes the
// gradients: `.grad()` is undefined afterwards; several backward passes before it add up.
// Blocks of a table (1 MiB at most) are whole; two may differ in age: HogWild.
//
// Shapes:        parameters: float32, CPU, contiguous, any shape; at least one element in all.
// Errors:        INVALID_ARGUMENT: a parameter or gradient that can't be, by its place;
//                FAILED_PRECONDITION: another definition of the table; UNAVAILABLE, ABORTED: a
//                server is gone, by name. After an error of Pull parameters may be partly new.
// Thread-safety: one thread at a time; not while parameters are used elsewhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optim/rules/rule.h"
#include "rpc/tensor/torch.h"
#include "worker/client/servers.h"

namespace gradwire::worker {

struct DenseOptions {
  // Default: SGD. What a push does.
  optim::RuleOptions rule = optim::Sgd{};
  // Default: false. True: a step more of staleness for hardly any waiting. Pull() gives what was
  // newest at the Pull() before, PushPull() what the PushPull() before it made; both arrive while
  // the job computes. End with WaitPush().
  bool overlap = false;
};

class Dense {
 public:
  Dense(Dense&&) noexcept;
  Dense& operator=(Dense&&) noexcept;
  ~Dense();

  // Waits for the newest weights.
  absl::Status Pull();
  // Hands the gradients over and waits until they were applied.
  absl::Status Push();
  // Both in one round trip.
  absl::Status PushPull();

  // Push without waiting. At most one under way: FAILED_PRECONDITION.
  absl::Status StartPush();
  // Waits for the push under way, if one is, and takes what it brings; its errors are these.
  absl::Status WaitPush();

  // For all workers, from the next push on.
  absl::Status SetLearningRate(double lr);

  // Pushes that the servers have applied, as of the last answer; the largest of the servers'.
  uint64_t version() const;

 private:
  friend class Client;
  struct Impl;
  explicit Dense(std::shared_ptr<Impl> impl);
  // Waits for what is under way, then takes the newest weights, whatever the options.
  static absl::Status Refresh(Impl& impl);
  static absl::StatusOr<Dense> Create(std::shared_ptr<Servers> servers,
                                      std::shared_ptr<ClientTimes> times, const std::string& name,
                                      std::vector<at::Tensor> parameters,
                                      const DenseOptions& options);
  std::shared_ptr<Impl> impl_;  // the client knows it weakly
};

}  // namespace gradwire::worker
