// Embedding: rows of a sparse table by id, as differentiable tensors.
//
//   GW_ASSIGN_OR_RETURN(auto users, client.Embedding("user", {.dim = 32, .rule = …, .init = …}));
//   GW_ASSIGN_OR_RETURN(at::Tensor u, users.Lookup(ids));   // int64 [n] -> float32 [n, 32]
//   loss.backward();
//   GW_RETURN_IF_ERROR(users.Push());                       // row gradients of all lookups since
//
// An id that comes several times in a batch travels once each way, with the sum of its gradients.
// Unknown ids come into being with the table's initial value; with {.create = false} (evaluation)
// they don't, and the initial value is returned.
//
// Shapes:        ids: int64, CPU, any shape, not negative; rows: float32 [*ids.shape, dim].
// Errors:        INVALID_ARGUMENT naming the table and the place; FAILED_PRECONDITION: another
//                definition of the table; UNAVAILABLE, ABORTED: a server is gone, by name.
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "optim/rules/init.h"
#include "optim/rules/rule.h"
#include "rpc/tensor/torch.h"
#include "worker/client/servers.h"

namespace gradwire::worker {

struct EmbeddingOptions {
  // Required. Floats of a row.
  int64_t dim = 0;
  // Default: SGD. What a push does to a row.
  optim::RuleOptions rule = optim::Sgd{};
  // Default: zeros.
  optim::InitOptions init = {};
  // Default: the job's seed. Of the initial values.
  std::optional<uint64_t> seed = {};
};

struct LookupOptions {
  // Default: true. False: unknown ids stay unknown, and no gradient is kept.
  bool create = true;
};

class Embedding;

// Rows under way.
class PendingLookup {
 public:
  PendingLookup(PendingLookup&&) noexcept;
  PendingLookup& operator=(PendingLookup&&) noexcept;
  ~PendingLookup();

  // The rows. Once. The Embedding must still be there.
  absl::StatusOr<at::Tensor> Wait();

 private:
  friend class Embedding;
  struct Impl;
  explicit PendingLookup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class Embedding {
 public:
  Embedding(Embedding&&) noexcept;
  Embedding& operator=(Embedding&&) noexcept;
  ~Embedding();

  absl::StatusOr<at::Tensor> Lookup(const at::Tensor& ids, const LookupOptions& options = {});
  // The same without waiting: several tables' lookups share a round trip.
  absl::StatusOr<PendingLookup> StartLookup(const at::Tensor& ids,
                                            const LookupOptions& options = {});

  // Hands over the gradients of all lookups since the last push, and waits until they are applied.
  // FAILED_PRECONDITION: none has a gradient.
  absl::Status Push();
  // The same without waiting. A lookup that is started afterwards sees it. An earlier push that is
  // still under way is waited for first.
  absl::Status StartPush();
  absl::Status WaitPush();

  // For all workers, from the next push on.
  absl::Status SetLearningRate(double lr);

 private:
  friend class Client;
  friend class PendingLookup;
  struct Impl;
  explicit Embedding(std::unique_ptr<Impl> impl);
  static absl::StatusOr<Embedding> Create(std::shared_ptr<Servers> servers,
                                          std::shared_ptr<ClientTimes> times,
                                          const std::string& name, const EmbeddingOptions& options,
                                          uint64_t job_seed);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gradwire::worker
