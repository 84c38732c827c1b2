// One object per process, created at its first use and never destroyed, because threads and exit
// handlers may use it until the very end.
//
// The child of a fork gets a new object in its place, because the threads that held the parent's
// locks do not exist there. The resources of the parent's object are left alone: they may be
// half-written.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace plimsoll::base {

// T's constructor must neither throw nor allocate: it also runs in the child of a fork.
template <typename T>
T& process_singleton() noexcept {
  static_assert(std::is_nothrow_default_constructible_v<T>);
  alignas(T) static std::byte storage[sizeof(T)];
  static T* const kObject = [] {
    T* const first = ::new (static_cast<void*>(storage)) T();
    // The handler runs before the child can start another thread.
    pthread_atfork(nullptr, nullptr, [] { ::new (static_cast<void*>(storage)) T(); });
    return first;
  }();
  return *std::launder(kObject);
}

}  // namespace plimsoll::base
