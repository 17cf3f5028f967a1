// Client: a worker's view of the parameter servers; JobContext::ps() in a job.
//
// Thread-safety: one thread at a time.
// Ownership:     the agent must outlive it and what it gave.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/client/dense.h"
#include "worker/client/embedding.h"
#include "worker/client/servers.h"

namespace gradwire::worker {

class Client {
 public:
  // seed: of initial values, where a table names none.
  Client(std::shared_ptr<Servers> servers, uint64_t seed)
      : servers_(std::move(servers)), times_(std::make_shared<ClientTimes>()), seed_(seed) {}

  // A table of dense parameters under `name`. Whoever comes first gives the values and the rule;
  // everybody else finds them with the first Pull.
  absl::StatusOr<worker::Dense> Dense(const std::string& name, std::vector<at::Tensor> parameters,
                                      const DenseOptions& options = {}) {
    absl::StatusOr<worker::Dense> dense =
        worker::Dense::Create(servers_, times_, name, std::move(parameters), options);
    if (dense.ok()) dense_.push_back(dense->impl_);
    return dense;
  }

  // Newest weights for all dense tables that are still there: before the model is judged or saved.
  absl::Status Refresh() {
    for (const auto& weak : dense_) {
      if (const auto dense = weak.lock()) GW_RETURN_IF_ERROR(worker::Dense::Refresh(*dense));
    }
    return absl::OkStatus();
  }

  // A table of rows under `name`, made by whoever comes first.
  absl::StatusOr<worker::Embedding> Embedding(const std::string& name,
                                              const EmbeddingOptions& options) {
    return worker::Embedding::Create(servers_, times_, name, options, seed_);
  }

  // Of this client's blocking calls so far.
  const ClientTimes& times() const { return *times_; }
  Servers& servers() { return *servers_; }

 private:
  std::shared_ptr<Servers> servers_;
  std::shared_ptr<ClientTimes> times_;
  std::vector<std::weak_ptr<worker::Dense::Impl>> dense_;
  uint64_t seed_;
};

}  // namespace gradwire::worker
