// What a pooled block costs, alone and between threads, against fresh memory that must be touched.
#include "rpc/base/buffer_pool.h"

#include <cstring>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "rpc/base/clock.h"

namespace gradwire {
namespace {

BufferPool& SharedPool() {
  static auto* const pool = new BufferPool(Clock::Real());
  return *pool;
}

void BM_PoolAllocateAndReturn(benchmark::State& state) {
  BufferPool& pool = SharedPool();
  for (auto _ : state) {
    auto buffer = pool.Allocate(static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(buffer->data());
  }
}
BENCHMARK(BM_PoolAllocateAndReturn)->Arg(1 << 10)->Arg(1 << 20)->Threads(1)->Threads(2);

void BM_HeapAllocateAndReturn(benchmark::State& state) {
  for (auto _ : state) {
    auto bytes = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(bytes.get());
  }
}
BENCHMARK(BM_HeapAllocateAndReturn)->Arg(1 << 10)->Arg(1 << 20);

// Receiving a tensor: take memory, fill it, give it back.
void BM_FillPooled(benchmark::State& state) {
  BufferPool& pool = SharedPool();
  const auto size = static_cast<size_t>(state.range(0));
  const std::vector<std::byte> src(size, std::byte{1});
  for (auto _ : state) {
    auto buffer = pool.Allocate(size);
    std::memcpy(buffer->data(), src.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FillPooled)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();

// The same with a pool that keeps nothing: mapped afresh each time.
void BM_FillFresh(benchmark::State& state) {
  BufferPool pool(Clock::Real(), {.max_free_bytes = 0});
  const auto size = static_cast<size_t>(state.range(0));
  const std::vector<std::byte> src(size, std::byte{1});
  for (auto _ : state) {
    auto buffer = pool.Allocate(size);
    std::memcpy(buffer->data(), src.data(), size);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FillFresh)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();

}  // namespace
}  // namespace gradwire
