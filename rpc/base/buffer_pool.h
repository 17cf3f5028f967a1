// Pooled memory for messages and tensors: 64-byte-aligned blocks that stay resident when they come
// back, because touching fresh memory costs 8-12 times a copy into memory that was touched before.
//
// Sizes:         classes 2^k * {4,5,6,7}/4 from 256 bytes on; at most a quarter of a block is
//                unused. Blocks of 64 KiB and more are mapped: fresh ones are address space alone
//                until their bytes are written. Smaller ones come from the heap. Contents are
//                undefined.
// Ownership:     a PooledBuffer owns its block and keeps what it needs to give it back: buffers may
//                outlive the pool object (their blocks are then freed at once).
// Thread-safety: all methods of BufferPool thread-safe; a PooledBuffer belongs to one thread at a
//                time but may move between threads. One lock a size class, held for a push or pop.
// Limits:        max_buffer_bytes, max_in_use_bytes -> RESOURCE_EXHAUSTED; max_free_bytes.
// Time:          a block that nobody wanted for `idle` is freed (timer on the injected clock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "rpc/base/clock.h"

namespace gradwire {

namespace pool_internal {
class PoolCore;
}  // namespace pool_internal

// Move-only handle of one block; gives it back to its pool when destroyed.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept;
  ~PooledBuffer() { Reset(); }

  // 64-byte-aligned; null only in an empty handle.
  std::byte* data() const { return data_; }
  size_t size() const { return size_bytes_; }
  size_t capacity() const { return capacity_bytes_; }
  std::span<std::byte> span() const { return {data_, size_bytes_}; }
  explicit operator bool() const { return data_ != nullptr; }

  // Sets size() to at most capacity(); false, and unchanged, beyond. The contents stay.
  [[nodiscard]] bool Resize(size_t size_bytes);

  // Gives the block back now.
  void Reset();

  // Hands the block over to shared ownership: it goes back with the last copy. Leaves this empty.
  std::shared_ptr<std::byte> Share() &&;

 private:
  friend class pool_internal::PoolCore;
  std::shared_ptr<pool_internal::PoolCore> core_;
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t capacity_bytes_ = 0;
  int size_class_ = 0;
};

struct BufferPoolOptions {
  // Default: 4 GiB. Bytes. Twice the largest tensor that is admitted by default.
  size_t max_buffer_bytes = size_t{4} << 30;
  // Default: 64 GiB. Bytes of capacity handed out at one time. Above it something leaks.
  size_t max_in_use_bytes = size_t{64} << 30;
  // Default: 512 MiB. Bytes kept resident for reuse; what comes back above it is freed at once.
  size_t max_free_bytes = size_t{512} << 20;
  // Default: 30 s. A block unused for this long is freed.
  absl::Duration idle = absl::Seconds(30);
};

struct BufferPoolStats {
  size_t in_use_bytes = 0;    // capacity of the blocks handed out
  size_t free_bytes = 0;      // capacity of the blocks kept for reuse
  size_t resident_bytes = 0;  // the sum: an upper bound, fresh mapped blocks are not yet touched
  uint64_t hits = 0;          // allocations served by a kept block
  uint64_t misses = 0;        // allocations that took fresh memory
};

class BufferPool {
 public:
  // `clock` must outlive the pool object (not its buffers).
  explicit BufferPool(Clock& clock, const BufferPoolOptions& options = {});
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A block of at least `size_bytes`, with size() == size_bytes; 0 is allowed.
  // RESOURCE_EXHAUSTED: above a limit, or the system has no memory. Never blocks.
  absl::StatusOr<PooledBuffer> Allocate(size_t size_bytes);

  // The same from kept blocks alone: an empty handle when there is none. What a descriptor of a
  // peer may reserve of memory that is already resident.
  PooledBuffer AllocateResident(size_t size_bytes);

  // Frees all kept blocks now.
  void Trim();

  BufferPoolStats Stats() const;

  // Capacity of the block that serves `size_bytes`; 0 when no class is that large.
  static size_t CapacityFor(size_t size_bytes);

 private:
  std::shared_ptr<pool_internal::PoolCore> core_;
};

}  // namespace gradwire
