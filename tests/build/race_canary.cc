// A deliberate race, reached as product code is reached: from tasks of an executor, from handlers
// on the executor and from inline handlers of calls that come over real sockets. ThreadSanitizer
// must report it; a run without a report means that it looks away.
//
//   race_canary tasks | calls | inline
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "rpc/agent.h"
#include "rpc/base/executor.h"

namespace gradwire::rpc {
namespace {

constexpr Function<int64_t()> kRace{"canary.race"};

std::atomic<int> inside{0};  // relaxed: makes the threads overlap without ordering them
int64_t unguarded = 0;

[[gnu::noinline]] void UnguardedIncrement() { ++unguarded; }

int64_t MeetAndRace() {
  inside.fetch_add(1, std::memory_order_relaxed);
  while (inside.load(std::memory_order_relaxed) < 2) {
  }
  for (int i = 0; i < 1000; ++i) UnguardedIncrement();
  return 0;
}

absl::Status RaceOfTasks() {
  ThreadPool pool({.name = "canary", .slot_count = 2});
  GW_RETURN_IF_ERROR(pool.Post([] { MeetAndRace(); }));
  return pool.Post([] { MeetAndRace(); });
}

absl::Status RaceOfCalls(Run run) {
  Registry functions;
  functions.Bind(kRace, MeetAndRace, {.run = run});
  // Two servers: each has its own polling thread, on which inline handlers run.
  GW_ASSIGN_OR_RETURN(auto a, Agent::Start({.name = "a", .functions = functions}));
  GW_ASSIGN_OR_RETURN(auto b, Agent::Start({.name = "b", .functions = functions}));
  GW_ASSIGN_OR_RETURN(
      auto client,
      Agent::Start({.name = "client", .peers = "a=" + a->address() + ",b=" + b->address()}));
  Future<int64_t> first = client->At("a").Async(kRace());
  Future<int64_t> second = client->At("b").Async(kRace());
  GW_RETURN_IF_ERROR(first.Wait(absl::Seconds(30)).status());
  GW_RETURN_IF_ERROR(second.Wait(absl::Seconds(30)).status());
  return client->Leave(absl::Seconds(5));
}

absl::Status Race(const std::string& way) {
  if (way == "tasks") return RaceOfTasks();
  if (way == "calls") return RaceOfCalls(kExecutor);
  if (way == "inline") return RaceOfCalls(kInline);
  return absl::InvalidArgumentError("race_canary tasks | calls | inline");
}

}  // namespace
}  // namespace gradwire::rpc

int main(int argc, char** argv) {
  const absl::Status status = gradwire::rpc::Race(argc > 1 ? argv[1] : "");
  std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
