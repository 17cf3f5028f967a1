// The blocks of the buffer pool: size classes, where memory comes from, lists of kept blocks.
// Internal to buffer_pool.cc; a header for its tests' and its file's size.
#pragma once

#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <new>

#include "absl/time/time.h"

#if defined(__SANITIZE_ADDRESS__)
#define GW_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GW_POOL_ASAN 1
#endif
#endif
#ifdef GW_POOL_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace gradwire::pool_internal {

inline constexpr size_t kAlignment = 64;
inline constexpr size_t kMappedFromBytes = size_t{64} << 10;
// Huge pages: 2 MiB each on x86-64; smaller blocks can't hold an aligned one for certain.
inline constexpr size_t kHugePagesFromBytes = size_t{4} << 20;
inline constexpr int kMinLog2 = 8;   // 256 bytes
inline constexpr int kMaxLog2 = 40;  // 1 TiB, above any limit that is set
inline constexpr int kClassCount = (kMaxLog2 - kMinLog2) * 4 + 1;

constexpr size_t ClassBytes(int size_class) {
  return (size_t{4} + static_cast<size_t>(size_class % 4)) << (size_class / 4 + kMinLog2 - 2);
}

// The smallest class that holds `size_bytes`; kClassCount when none does.
constexpr int ClassFor(size_t size_bytes) {
  if (size_bytes <= ClassBytes(0)) return 0;
  if (size_bytes > ClassBytes(kClassCount - 1)) return kClassCount;
  // With 2^k < size <= 2^(k+1), quarters of 2^k above 2^k, rounded up: 1..4.
  const int k = std::bit_width(size_bytes - 1) - 1;
  const size_t quarter = size_t{1} << (k - 2);
  const size_t steps = (size_bytes - (size_t{1} << k) + quarter - 1) / quarter;
  return (k - kMinLog2) * 4 + static_cast<int>(steps);
}
static_assert(ClassBytes(ClassFor(257)) == 320 && ClassBytes(ClassFor(512)) == 512);
static_assert(ClassFor(ClassBytes(kClassCount - 1)) == kClassCount - 1);

// Under AddressSanitizer what lies in the pool, or beyond size(), is poisoned: use after return
// and overruns are found although the memory stays ours.
inline void Poison([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t bytes) {
#ifdef GW_POOL_ASAN
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}
inline void Unpoison([[maybe_unused]] const std::byte* data, [[maybe_unused]] size_t bytes) {
#ifdef GW_POOL_ASAN
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

inline std::byte* MapBlock(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  // Advice only: fails where huge pages are off.
  if (bytes >= kHugePagesFromBytes) (void)madvise(p, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(p);
}

inline std::byte* FreshBlock(size_t bytes) {
  if (bytes >= kMappedFromBytes) return MapBlock(bytes);
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kAlignment}, std::nothrow));
}

inline void FreeBlock(std::byte* data, size_t bytes) {
  Unpoison(data, bytes);
  if (bytes >= kMappedFromBytes) {
    munmap(data, bytes);
  } else {
    ::operator delete(data, std::align_val_t{kAlignment});
  }
}

// Kept blocks, linked through their own first bytes: putting one back allocates nothing. The last
// one in is the first one out, so the oldest is the longest unused.
struct FreeNode {
  FreeNode* newer;
  FreeNode* older;
  absl::Time since;
};

class FreeList {
 public:
  bool empty() const { return newest_ == nullptr; }
  absl::Time oldest_since() const { return oldest_->since; }

  void Push(std::byte* block, absl::Time since) {
    auto* node = new (block) FreeNode{nullptr, newest_, since};
    (newest_ != nullptr ? newest_->newer : oldest_) = node;
    newest_ = node;
  }
  std::byte* PopNewest() {
    FreeNode* node = newest_;
    newest_ = node->older;
    (newest_ != nullptr ? newest_->newer : oldest_) = nullptr;
    return reinterpret_cast<std::byte*>(node);
  }
  std::byte* PopOldest() {
    FreeNode* node = oldest_;
    oldest_ = node->newer;
    (oldest_ != nullptr ? oldest_->older : newest_) = nullptr;
    return reinterpret_cast<std::byte*>(node);
  }

 private:
  FreeNode* newest_ = nullptr;
  FreeNode* oldest_ = nullptr;
};

}  // namespace gradwire::pool_internal
