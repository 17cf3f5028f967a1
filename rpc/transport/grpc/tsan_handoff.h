// Tells ThreadSanitizer about the order that gRPC gives. Internal to rpc/transport/grpc.
//
// What is handed to gRPC on one thread and comes back on another (a tag, a slice's owner) is
// ordered by gRPC's own locks, but its library is not instrumented. Nothing outside a tsan build.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define GW_TSAN_HANDOFF 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GW_TSAN_HANDOFF 1
#endif
#endif

#ifdef GW_TSAN_HANDOFF
// The sanitizer's own names.
extern "C" void __tsan_acquire(void* address);  // NOLINT(bugprone-reserved-identifier)
extern "C" void __tsan_release(void* address);  // NOLINT(bugprone-reserved-identifier)
#endif

namespace gradwire::rpc {

// Before `object` is handed to gRPC.
inline void HandToGrpc([[maybe_unused]] void* object) {
#ifdef GW_TSAN_HANDOFF
  __tsan_release(object);
#endif
}

// After gRPC has given it back.
inline void TakeFromGrpc([[maybe_unused]] void* object) {
#ifdef GW_TSAN_HANDOFF
  __tsan_acquire(object);
#endif
}

}  // namespace gradwire::rpc
