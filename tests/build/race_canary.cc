// A deliberate race, reached as product code is reached: from tasks of an executor. ThreadSanitizer
// must report it; a run without a report means that it looks away.
#include <atomic>
#include <cstdio>

#include "rpc/base/executor.h"

int main() {
  int unguarded = 0;
  std::atomic<int> inside{0};  // relaxed: makes the tasks overlap without ordering them
  {
    gradwire::ThreadPool pool({.name = "canary", .slot_count = 2});
    for (int i = 0; i < 2; ++i) {
      const absl::Status posted = pool.Post([&] {
        inside.fetch_add(1, std::memory_order_relaxed);
        while (inside.load(std::memory_order_relaxed) < 2) {
        }
        for (int n = 0; n < 1000; ++n) ++unguarded;
      });
      if (!posted.ok()) return 1;
    }
  }
  std::printf("%d\n", unguarded);
  return 0;
}
