// A deliberate race, reached as product code is reached: from tasks of an executor. ThreadSanitizer
// must report it; a run without a report means that it looks away.
#include <atomic>
#include <cstdio>

#include "rpc/base/executor.h"

int main() {
  int unguarded = 0;
  {
    gradwire::ThreadPool pool({.name = "canary", .slot_count = 2});
    for (int i = 0; i < 1000; ++i) {
      if (!pool.Post([&unguarded] { ++unguarded; }).ok()) return 1;
    }
  }
  std::printf("%d\n", unguarded);
  return 0;
}
