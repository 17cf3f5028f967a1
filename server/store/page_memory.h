// PageMemory: address space that becomes memory piece by piece; the store's way around malloc.
//
// Fresh memory reads as zero. Large pages (2 MiB) are asked for where the caller says so; where the
// system has none it gives small ones, and only speed differs.
//
// Thread-safety: one thread at a time.
// Errors:        RESOURCE_EXHAUSTED: the system has no address space or memory.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gradwire::server {

inline constexpr size_t kSmallPageBytes = size_t{4} << 10;
inline constexpr size_t kLargePageBytes = size_t{2} << 20;

constexpr size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

enum class PageSize { kSmall, kLarge };

class PageMemory {
 public:
  PageMemory() = default;
  // Address space of at least `bytes`, without memory; aligned to a large page if it has room for
  // one.
  static absl::StatusOr<PageMemory> Reserve(size_t bytes);
  PageMemory(PageMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageMemory& operator=(PageMemory&& other) noexcept;
  ~PageMemory() { Reset(); }

  // Makes [offset, offset + bytes) usable; multiples of the page size. It becomes resident when it
  // is touched.
  absl::Status Commit(size_t offset, size_t bytes, PageSize pages);
  // Gives the memory of that part back; it must not be used again.
  void Decommit(size_t offset, size_t bytes);
  void Reset();

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gradwire::server
