#include "rpc/base/buffer_pool.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rpc/base/buffer_pool_block.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/base/rng.h"
#include "rpc/base/sim.h"

namespace gradwire {
namespace {

PooledBuffer MustAllocate(BufferPool& pool, size_t bytes) {
  auto buffer = pool.Allocate(bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return buffer.ok() ? *std::move(buffer) : PooledBuffer();
}

TEST(BufferPoolTest, SizeClassesWasteAQuarterAtMost) {
  EXPECT_EQ(BufferPool::CapacityFor(0), 256u);
  EXPECT_EQ(BufferPool::CapacityFor(256), 256u);
  EXPECT_EQ(BufferPool::CapacityFor(257), 320u);
  EXPECT_EQ(BufferPool::CapacityFor(449), 512u);
  EXPECT_EQ(BufferPool::CapacityFor(size_t{64} << 20), size_t{64} << 20);
  EXPECT_EQ(BufferPool::CapacityFor((size_t{64} << 20) + 1), size_t{80} << 20);
  EXPECT_EQ(BufferPool::CapacityFor(~size_t{0}), 0u);
  SeededRng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const size_t want = 257 + rng.Below(size_t{1} << (9 + rng.Below(30)));
    const size_t got = BufferPool::CapacityFor(want);
    ASSERT_GE(got, want);
    ASSERT_LE(got, want + want / 4 + 1) << want;
    ASSERT_EQ(got % 64, 0u);
    ASSERT_EQ(BufferPool::CapacityFor(got), got);
  }
}

TEST(BufferPoolTest, BuffersAreAlignedWritableAndSized) {
  SimLoop clock;
  BufferPool pool(clock);
  for (const size_t size : {0, 1, 63, 256, 1000, 65'535, 65'536, 65'537, 5'000'000}) {
    PooledBuffer buffer = MustAllocate(pool, size);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.capacity(), BufferPool::CapacityFor(size));
    std::memset(buffer.data(), 0x5a, size);
    EXPECT_FALSE(buffer.Resize(buffer.capacity() + 1));
    EXPECT_EQ(buffer.size(), size);
    ASSERT_TRUE(buffer.Resize(buffer.capacity()));
    std::memset(buffer.data(), 0x5b, buffer.size());
  }
}

TEST(BufferPoolTest, AReturnedBlockServesTheNextOfItsClass) {
  SimLoop clock;
  BufferPool pool(clock);
  PooledBuffer first = MustAllocate(pool, 100'000);
  std::byte* const where = first.data();
  first.Reset();
  EXPECT_FALSE(first);
  EXPECT_EQ(first.size(), 0u);
  const PooledBuffer second = MustAllocate(pool, 99'000);
  EXPECT_EQ(second.data(), where);
  const BufferPoolStats stats = pool.Stats();
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.in_use_bytes, second.capacity());
  EXPECT_EQ(stats.free_bytes, 0u);
  EXPECT_EQ(stats.resident_bytes, second.capacity());
}

TEST(BufferPoolTest, MovingTakesTheBlockAlong) {
  SimLoop clock;
  BufferPool pool(clock);
  PooledBuffer a = MustAllocate(pool, 1000);
  PooledBuffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): what a moved-from handle is, is promised
  EXPECT_EQ(b.size(), 1000u);
  PooledBuffer c = MustAllocate(pool, 2000);
  c = std::move(b);  // gives the block of 2000 back
  EXPECT_EQ(c.size(), 1000u);
  EXPECT_EQ(pool.Stats().in_use_bytes, 1024u);
  EXPECT_EQ(pool.Stats().free_bytes, 2048u);
  PooledBuffer& self = c;
  c = std::move(self);
  EXPECT_EQ(c.size(), 1000u);
}

TEST(BufferPoolTest, SharedOwnershipReturnsWithTheLastCopy) {
  SimLoop clock;
  BufferPool pool(clock);
  std::shared_ptr<std::byte> shared = MustAllocate(pool, 4096).Share();
  std::shared_ptr<const void> copy = shared;
  shared.reset();
  EXPECT_EQ(pool.Stats().in_use_bytes, 4096u);
  copy.reset();
  EXPECT_EQ(pool.Stats().in_use_bytes, 0u);
  EXPECT_EQ(pool.Stats().free_bytes, 4096u);
  EXPECT_EQ(PooledBuffer().Share(), nullptr);
}

TEST(BufferPoolTest, LimitsRefuseAndNameThemselves) {
  SimLoop clock;
  BufferPool pool(clock, {.max_buffer_bytes = 1 << 20, .max_in_use_bytes = 2 << 20});
  const auto large = pool.Allocate((1 << 20) + 1);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(large.status().message().find("max_buffer_bytes"), std::string::npos);
  EXPECT_FALSE(pool.Allocate(~size_t{0}).ok());
  PooledBuffer a = MustAllocate(pool, 1 << 20);
  const PooledBuffer b = MustAllocate(pool, 1 << 20);
  const auto third = pool.Allocate(1);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(third.status().message().find("max_in_use_bytes"), std::string::npos);
  a.Reset();
  EXPECT_TRUE(pool.Allocate(1).ok());
}

TEST(BufferPoolTest, AHugeClaimTakesNoMemory) {
  SimLoop clock;
  BufferPool pool(clock, {.max_buffer_bytes = size_t{1} << 45, .max_in_use_bytes = ~size_t{0}});
  EXPECT_FALSE(pool.Allocate(size_t{1} << 44).ok());  // above every class
  EXPECT_EQ(pool.Stats().in_use_bytes, 0u);
}

TEST(BufferPoolTest, AllocateResidentNeverTakesFreshMemory) {
  SimLoop clock;
  BufferPool pool(clock);
  EXPECT_FALSE(pool.AllocateResident(1 << 20));
  EXPECT_EQ(pool.Stats().misses, 0u);
  MustAllocate(pool, 1 << 20).Reset();
  const PooledBuffer kept = pool.AllocateResident(1 << 20);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(pool.AllocateResident(1 << 20));
  EXPECT_EQ(pool.Stats().in_use_bytes, size_t{1} << 20);
}

TEST(BufferPoolTest, KeepsNoMoreThanItsLimit) {
  SimLoop clock;
  BufferPool pool(clock, {.max_free_bytes = 3 << 20});
  std::vector<PooledBuffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(MustAllocate(pool, 1 << 20));
  buffers.clear();
  EXPECT_EQ(pool.Stats().free_bytes, size_t{3} << 20);
  pool.Trim();
  EXPECT_EQ(pool.Stats().resident_bytes, 0u);
}

TEST(BufferPoolTest, IdleBlocksGoAfterTheIdleTimeAndUsedOnesStay) {
  SimLoop clock;
  BufferPool pool(clock, {.idle = absl::Seconds(30)});
  {
    const PooledBuffer a = MustAllocate(pool, 1 << 20);
    const PooledBuffer b = MustAllocate(pool, 1 << 20);
    const PooledBuffer small = MustAllocate(pool, 300);
  }
  EXPECT_EQ(pool.Stats().free_bytes, (size_t{2} << 20) + 320);
  clock.RunFor(absl::Seconds(20));
  MustAllocate(pool, 1 << 20).Reset();  // one of the two stays in use
  clock.RunFor(absl::Seconds(9));
  EXPECT_EQ(pool.Stats().free_bytes, (size_t{2} << 20) + 320);
  clock.RunFor(absl::Seconds(1.1));
  EXPECT_EQ(pool.Stats().free_bytes, size_t{1} << 20);
  clock.RunFor(absl::Seconds(18.5));
  EXPECT_EQ(pool.Stats().free_bytes, size_t{1} << 20);
  clock.RunFor(absl::Seconds(1.5));
  EXPECT_EQ(pool.Stats().free_bytes, 0u);
  EXPECT_EQ(clock.pending_count(), 0u) << "an empty pool needs no timer";
}

TEST(BufferPoolTest, MuchIdleMemoryGoesInSteps) {
  SimLoop clock;
  BufferPool pool(clock, {.idle = absl::Seconds(30)});
  std::vector<PooledBuffer> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back(MustAllocate(pool, 16 << 20));
  buffers.clear();
  clock.RunFor(absl::Seconds(30));
  const size_t after_one_step = pool.Stats().free_bytes;
  EXPECT_GT(after_one_step, 0u);
  EXPECT_LT(after_one_step, size_t{160} << 20);
  clock.RunFor(absl::Seconds(1));
  EXPECT_EQ(pool.Stats().free_bytes, 0u);
}

TEST(BufferPoolTest, BuffersOutliveThePoolAndItsClock) {
  auto clock = std::make_unique<SimLoop>();
  auto pool = std::make_unique<BufferPool>(*clock);
  MustAllocate(*pool, 1 << 20).Reset();
  PooledBuffer small = MustAllocate(*pool, 1000);
  std::shared_ptr<std::byte> large = MustAllocate(*pool, 1 << 20).Share();
  pool.reset();
  EXPECT_EQ(clock->pending_count(), 0u) << "the pool takes its timer along";
  clock.reset();
  std::memset(small.data(), 1, small.size());
  std::memset(large.get(), 1, 1 << 20);
  small.Reset();
  large.reset();
}

#ifdef GW_POOL_ASAN
TEST(BufferPoolDeathTest, AddressSanitizerSeesUseAfterReturnAndOverruns) {
  SimLoop clock;
  BufferPool pool(clock);
  PooledBuffer buffer = MustAllocate(pool, 100'000);
  volatile std::byte* const data = buffer.data();
  EXPECT_DEATH(data[100'000] = std::byte{1}, "use-after-poison");
  buffer.Reset();
  EXPECT_DEATH(data[99'999] = std::byte{1}, "use-after-poison");
}
#endif

TEST(BufferPoolTest, ThreadsShareOnePool) {
  std::optional<BufferPool> pool(
      std::in_place, Clock::Real(),
      BufferPoolOptions{.max_free_bytes = 4 << 20, .idle = absl::Milliseconds(1)});
  // Handed from thread to thread through this slot, and left there when the pool goes.
  Mutex mu;
  std::vector<PooledBuffer> slots(8);
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      SeededRng rng(seed);
      for (int i = 0; i < 3000; ++i) {
        const size_t size = 1 + rng.Below(size_t{1} << (4 + rng.Below(17)));
        auto buffer = pool->Allocate(size);
        ASSERT_TRUE(buffer.ok());
        const auto mark = static_cast<std::byte>(seed + 1);
        buffer->data()[0] = mark;
        buffer->data()[size - 1] = mark;
        {
          MutexLock lock(mu);
          std::swap(slots[rng.Below(slots.size())], *buffer);
        }
        if (*buffer) {
          ASSERT_EQ(buffer->data()[0], buffer->data()[buffer->size() - 1]);
        }
        if (i % 500 == 0) pool->Trim();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const BufferPoolStats stats = pool->Stats();
  EXPECT_EQ(stats.hits + stats.misses, 12'000u);
  EXPECT_LE(stats.free_bytes, size_t{4} << 20);
  // Closing while other threads give blocks back.
  std::atomic<bool> go{false};
  std::thread returner([&] {
    while (!go.load()) std::this_thread::yield();
    slots.clear();
  });
  go.store(true);
  pool.reset();
  returner.join();
}

}  // namespace
}  // namespace gradwire
