// Copying with a checksum against memcpy alone, at the sizes of bulk chunks.
#include "rpc/base/crc32c.h"

#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"

namespace gradwire {
namespace {

// A ring of sources and destinations larger than the caches, as chunks come from in real use.
struct Ring {
  explicit Ring(size_t piece)
      : piece_bytes(piece),
        count((size_t{128} << 20) / piece),
        src(piece * count, std::byte{1}),
        dst(piece * count, std::byte{2}) {}
  size_t piece_bytes, count, next = 0;
  std::vector<std::byte> src, dst;
  size_t NextOffset() { return piece_bytes * (next++ % count); }
};

void BM_Memcpy(benchmark::State& state) {
  Ring ring(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const size_t at = ring.NextOffset();
    std::memcpy(&ring.dst[at], &ring.src[at], ring.piece_bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Arg(64 << 10)->Arg(1 << 20)->Arg(2 << 20);

void BM_Crc32cCopy(benchmark::State& state) {
  Ring ring(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const size_t at = ring.NextOffset();
    benchmark::DoNotOptimize(Crc32cCopy(&ring.dst[at], &ring.src[at], ring.piece_bytes));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Crc32cCopy)->Arg(64 << 10)->Arg(1 << 20)->Arg(2 << 20);

// What the one-pass variant saves: the copy first, the checksum of the whole piece after it.
void BM_MemcpyThenCrc32c(benchmark::State& state) {
  Ring ring(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const size_t at = ring.NextOffset();
    std::memcpy(&ring.dst[at], &ring.src[at], ring.piece_bytes);
    benchmark::DoNotOptimize(Crc32c(std::span(&ring.dst[at], ring.piece_bytes)));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_MemcpyThenCrc32c)->Arg(1 << 20);

void BM_Crc32c(benchmark::State& state) {
  Ring ring(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const size_t at = ring.NextOffset();
    benchmark::DoNotOptimize(Crc32c(std::span(&ring.src[at], ring.piece_bytes)));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Crc32c)->Arg(4 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace gradwire
