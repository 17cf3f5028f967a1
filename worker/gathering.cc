#include "worker/gathering.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "rpc/base/log.h"

namespace gradwire::worker {
namespace {

constexpr rpc::Function<void(int32_t)> kTrained{"gradwire.worker.trained"};
constexpr rpc::Function<bool()> kAlive{"gradwire.worker.alive"};
// How often rank 0 asks those that it waits for whether they are still there.
constexpr absl::Duration kAskEvery = absl::Seconds(1);
// A worker that comes late may still be starting.
constexpr absl::Duration kAskTimeout = absl::Seconds(5);

std::string NameOf(int rank) { return absl::StrCat("worker", rank); }

}  // namespace

void Gathering::Bind(rpc::Registry& functions) {
  functions
      .Bind(kTrained,
            [this](int32_t rank) {
              MutexLock lock(mu_);
              done_.insert(rank);
              changed_.NotifyAll();
            },
            {.run = rpc::kInline})
      .Bind(kAlive, [] { return true; }, {.run = rpc::kInline});
}

absl::Status Gathering::Meet(rpc::Agent& agent, int rank) {
  if (world_ == 1) return absl::OkStatus();
  if (rank == 0) return WaitForAll(agent);
  const absl::Status told =
      agent.At(NameOf(0)).Call(kTrained(rank), {.timeout = absl::Seconds(10)});
  if (!told.ok()) {
    GW_LOG(WARNING) << "worker0 was not told that this worker is done" << Kv("why", told.message());
  }
  return absl::OkStatus();
}

absl::Status Gathering::WaitForAll(rpc::Agent& agent) {
  for (int rank = 1; rank < world_; ++rank) {
    while (true) {
      {
        MutexLock lock(mu_);
        if (!done_.contains(rank)) changed_.WaitFor(mu_, kAskEvery);
        if (done_.contains(rank)) break;
      }
      const auto alive = agent.At(NameOf(rank)).Call(kAlive(), {.timeout = kAskTimeout});
      if (alive.ok()) continue;
      if (absl::IsFailedPrecondition(alive.status()) || absl::IsCancelled(alive.status())) {
        return alive.status();  // this agent leaves
      }
      MutexLock lock(mu_);
      if (done_.contains(rank)) break;  // it has left since
      GW_LOG(WARNING) << "a worker is gone before it has trained" << Kv("worker", NameOf(rank))
                      << Kv("why", alive.status().message());
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace gradwire::worker
