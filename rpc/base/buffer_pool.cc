#include "rpc/base/buffer_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rpc/base/buffer_pool_block.h"
#include "rpc/base/mutex.h"

namespace gradwire {
namespace pool_internal {
namespace {

// What one timer run frees at most: unmapping costs ~0.1 ms a MiB of 4 KiB pages, and the clock's
// one thread has other timers to serve.
constexpr size_t kShrinkStepBytes = size_t{32} << 20;
constexpr absl::Duration kShrinkPause = absl::Milliseconds(5);

}  // namespace

class PoolCore : public std::enable_shared_from_this<PoolCore> {
 public:
  PoolCore(Clock& clock, const BufferPoolOptions& options) : clock_(clock), options_(options) {}
  ~PoolCore() { FreeAll(); }

  absl::StatusOr<PooledBuffer> Allocate(size_t size_bytes);
  PooledBuffer AllocateResident(size_t size_bytes);
  void Put(std::byte* data, int size_class) noexcept;
  void FreeAll();
  void Close();
  BufferPoolStats Stats() const;

 private:
  // Kept blocks of one size. Own cache line: classes don't disturb each other.
  struct alignas(64) SizeClass {
    Mutex mu;
    FreeList free GW_GUARDED_BY(mu);
  };

  // The block used last of a class, or null.
  std::byte* TakeFree(int size_class);
  bool Reserve(size_t capacity);
  PooledBuffer Wrap(std::byte* data, int size_class, size_t size_bytes);
  void ArmTimer(absl::Duration delay);
  void ShrinkOnTimer();

  // Valid until Close(); touched only under a class lock with closed_ false, or on the clock's own
  // timer thread.
  Clock& clock_;
  const BufferPoolOptions options_;
  std::array<SizeClass, kClassCount> classes_;

  // Read under class locks, written before Close() takes each of them once: whoever locks a class
  // after that sees it. Atomic because the classes have no lock in common.
  std::atomic<bool> closed_{false};
  // Counters: each exact by itself; no other data is published through them, hence relaxed.
  std::atomic<size_t> in_use_bytes_{0};
  std::atomic<size_t> free_bytes_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  // True while a timer is pending. Set by whoever arms it; cleared by the timer before it looks at
  // the classes, so that a block put back behind its scan arms the next one.
  std::atomic<bool> armed_{false};
  Mutex timer_mu_;
  TimerId timer_ GW_GUARDED_BY(timer_mu_);
};

absl::StatusOr<PooledBuffer> PoolCore::Allocate(size_t size_bytes) {
  const int size_class = ClassFor(size_bytes);
  if (size_bytes > options_.max_buffer_bytes || size_class >= kClassCount) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a buffer of ", size_bytes, " bytes is above the pool's limit of ",
                     options_.max_buffer_bytes, " bytes (max_buffer_bytes)"));
  }
  const size_t capacity = ClassBytes(size_class);
  if (!Reserve(capacity)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no buffer of ", size_bytes, " bytes: ", in_use_bytes_.load(std::memory_order_relaxed),
        " bytes are in use, the limit is ", options_.max_in_use_bytes, " (max_in_use_bytes)"));
  }
  if (std::byte* kept = TakeFree(size_class)) return Wrap(kept, size_class, size_bytes);
  std::byte* fresh = FreshBlock(capacity);
  if (fresh == nullptr) {
    FreeAll();  // kept blocks of other sizes
    fresh = FreshBlock(capacity);
  }
  if (fresh == nullptr) {
    in_use_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
    return absl::ResourceExhaustedError(
        absl::StrCat("the system has no memory for a buffer of ", size_bytes, " bytes"));
  }
  misses_.fetch_add(1, std::memory_order_relaxed);
  return Wrap(fresh, size_class, size_bytes);
}

PooledBuffer PoolCore::AllocateResident(size_t size_bytes) {
  const int size_class = ClassFor(size_bytes);
  if (size_bytes > options_.max_buffer_bytes || size_class >= kClassCount) return {};
  const size_t capacity = ClassBytes(size_class);
  if (!Reserve(capacity)) return {};
  std::byte* kept = TakeFree(size_class);
  if (kept == nullptr) {
    in_use_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
    return {};
  }
  return Wrap(kept, size_class, size_bytes);
}

bool PoolCore::Reserve(size_t capacity) {
  const size_t before = in_use_bytes_.fetch_add(capacity, std::memory_order_relaxed);
  if (before <= options_.max_in_use_bytes && capacity <= options_.max_in_use_bytes - before) {
    return true;
  }
  in_use_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
  return false;
}

std::byte* PoolCore::TakeFree(int size_class) {
  SizeClass& list = classes_[static_cast<size_t>(size_class)];
  std::byte* data = nullptr;
  {
    MutexLock lock(list.mu);
    if (list.free.empty()) return nullptr;
    data = list.free.PopNewest();
  }
  free_bytes_.fetch_sub(ClassBytes(size_class), std::memory_order_relaxed);
  hits_.fetch_add(1, std::memory_order_relaxed);
  return data;
}

PooledBuffer PoolCore::Wrap(std::byte* data, int size_class, size_t size_bytes) {
  PooledBuffer buffer;
  buffer.core_ = shared_from_this();
  buffer.data_ = data;
  buffer.size_class_ = size_class;
  buffer.capacity_bytes_ = ClassBytes(size_class);
  buffer.size_bytes_ = size_bytes;
  Unpoison(data, size_bytes);
  Poison(data + size_bytes, buffer.capacity_bytes_ - size_bytes);
  return buffer;
}

void PoolCore::Put(std::byte* data, int size_class) noexcept {
  const size_t capacity = ClassBytes(size_class);
  in_use_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
  const size_t kept = free_bytes_.fetch_add(capacity, std::memory_order_relaxed);
  if (kept <= options_.max_free_bytes && capacity <= options_.max_free_bytes - kept) {
    Unpoison(data, sizeof(FreeNode));
    Poison(data + sizeof(FreeNode), capacity - sizeof(FreeNode));
    SizeClass& list = classes_[static_cast<size_t>(size_class)];
    MutexLock lock(list.mu);
    if (!closed_.load(std::memory_order_relaxed)) {
      list.free.Push(data, clock_.Now());
      ArmTimer(options_.idle);
      return;
    }
  }
  free_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
  FreeBlock(data, capacity);
}

void PoolCore::ArmTimer(absl::Duration delay) {
  if (armed_.load(std::memory_order_relaxed) || armed_.exchange(true)) return;
  MutexLock lock(timer_mu_);
  timer_ = clock_.CallAfter(delay, [weak = weak_from_this()] {
    if (auto core = weak.lock()) core->ShrinkOnTimer();
  });
}

void PoolCore::ShrinkOnTimer() {
  armed_.store(false);
  const absl::Time now = clock_.Now();
  absl::Time oldest = absl::InfiniteFuture();
  size_t freed_bytes = 0;
  for (int c = kClassCount - 1; c >= 0; --c) {
    const size_t capacity = ClassBytes(c);
    SizeClass& list = classes_[static_cast<size_t>(c)];
    while (true) {
      std::byte* data = nullptr;
      {
        MutexLock lock(list.mu);
        if (list.free.empty()) break;
        const absl::Time since = list.free.oldest_since();
        if (now - since < options_.idle || freed_bytes >= kShrinkStepBytes) {
          oldest = std::min(oldest, since);
          break;
        }
        data = list.free.PopOldest();
      }
      FreeBlock(data, capacity);
      free_bytes_.fetch_sub(capacity, std::memory_order_relaxed);
      freed_bytes += capacity;
    }
  }
  if (oldest == absl::InfiniteFuture()) return;
  // Under a class lock, as in Put(): the clock may be used while the pool is open.
  MutexLock lock(classes_[0].mu);
  if (closed_.load(std::memory_order_relaxed)) return;
  ArmTimer(std::max(oldest + options_.idle - now, kShrinkPause));
}

void PoolCore::FreeAll() {
  for (int c = 0; c < kClassCount; ++c) {
    SizeClass& list = classes_[static_cast<size_t>(c)];
    FreeList taken;
    {
      MutexLock lock(list.mu);
      std::swap(taken, list.free);
    }
    while (!taken.empty()) {
      FreeBlock(taken.PopNewest(), ClassBytes(c));
      free_bytes_.fetch_sub(ClassBytes(c), std::memory_order_relaxed);
    }
  }
}

void PoolCore::Close() {
  closed_.store(true, std::memory_order_relaxed);
  FreeAll();  // takes every class lock once: nobody uses the clock any more
  MutexLock lock(timer_mu_);
  clock_.CancelTimer(timer_);
}

BufferPoolStats PoolCore::Stats() const {
  BufferPoolStats stats;
  stats.in_use_bytes = in_use_bytes_.load(std::memory_order_relaxed);
  stats.free_bytes = free_bytes_.load(std::memory_order_relaxed);
  stats.resident_bytes = stats.in_use_bytes + stats.free_bytes;
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.misses = misses_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace pool_internal

using pool_internal::PoolCore;

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : core_(std::move(other.core_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      capacity_bytes_(std::exchange(other.capacity_bytes_, 0)),
      size_class_(other.size_class_) {}

PooledBuffer& PooledBuffer::operator=(PooledBuffer&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  core_ = std::move(other.core_);
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  capacity_bytes_ = std::exchange(other.capacity_bytes_, 0);
  size_class_ = other.size_class_;
  return *this;
}

bool PooledBuffer::Resize(size_t size_bytes) {
  if (size_bytes > capacity_bytes_) return false;
  pool_internal::Unpoison(data_, size_bytes);
  pool_internal::Poison(data_ + size_bytes, capacity_bytes_ - size_bytes);
  size_bytes_ = size_bytes;
  return true;
}

void PooledBuffer::Reset() {
  if (data_ == nullptr) return;
  core_->Put(std::exchange(data_, nullptr), size_class_);
  size_bytes_ = 0;
  capacity_bytes_ = 0;
  core_.reset();
}

std::shared_ptr<std::byte> PooledBuffer::Share() && {
  if (data_ == nullptr) return nullptr;
  auto owner = std::make_shared<PooledBuffer>(std::move(*this));
  std::byte* data = owner->data();
  return std::shared_ptr<std::byte>(std::move(owner), data);
}

BufferPool::BufferPool(Clock& clock, const BufferPoolOptions& options)
    : core_(std::make_shared<PoolCore>(clock, options)) {}

BufferPool::~BufferPool() { core_->Close(); }

absl::StatusOr<PooledBuffer> BufferPool::Allocate(size_t size_bytes) {
  return core_->Allocate(size_bytes);
}

PooledBuffer BufferPool::AllocateResident(size_t size_bytes) {
  return core_->AllocateResident(size_bytes);
}

void BufferPool::Trim() { core_->FreeAll(); }

BufferPoolStats BufferPool::Stats() const { return core_->Stats(); }

size_t BufferPool::CapacityFor(size_t size_bytes) {
  const int size_class = pool_internal::ClassFor(size_bytes);
  return size_class < pool_internal::kClassCount ? pool_internal::ClassBytes(size_class) : 0;
}

}  // namespace gradwire
