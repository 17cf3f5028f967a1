#include "server/store/page_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gradwire::server {
namespace {

absl::Status OutOfMemory(size_t bytes, const char* what) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the system gives no ", bytes, " bytes of ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<PageMemory> PageMemory::Reserve(size_t bytes) {
  bytes = RoundUp(bytes, kSmallPageBytes);
  const size_t alignment = bytes >= kLargePageBytes ? kLargePageBytes : kSmallPageBytes;
  // What sticks out on either side of the aligned part is given back.
  const size_t mapped_bytes = bytes + alignment - kSmallPageBytes;
  void* mapped =
      mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return OutOfMemory(mapped_bytes, "address space");
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t head =
      RoundUp(reinterpret_cast<uintptr_t>(begin), alignment) - reinterpret_cast<uintptr_t>(begin);
  const size_t rest = mapped_bytes - head - bytes;
  if (head != 0) munmap(begin, head);
  if (rest != 0) munmap(begin + head + bytes, rest);
  PageMemory memory;
  memory.data_ = begin + head;
  memory.bytes_ = bytes;
  return memory;
}

PageMemory& PageMemory::operator=(PageMemory&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

absl::Status PageMemory::Commit(size_t offset, size_t bytes, PageSize pages) {
  if (mprotect(data_ + offset, bytes, PROT_READ | PROT_WRITE) != 0) {
    return OutOfMemory(bytes, "memory");
  }
  // Advice: where it isn't taken, pages are small.
  (void)madvise(data_ + offset, bytes, pages == PageSize::kLarge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return absl::OkStatus();
}

void PageMemory::Decommit(size_t offset, size_t bytes) {
  (void)madvise(data_ + offset, bytes, MADV_DONTNEED);
}

void PageMemory::Reset() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace gradwire::server
