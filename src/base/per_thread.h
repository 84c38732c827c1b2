// A value for each thread, destroyed with it. A thread_local object with a destructor would end the
// program where there is no memory to register it; this throws std::bad_alloc.
//
// A thread_local object of a library that dlopen() has loaded is allocated at a thread's first use
// of it, and glibc ends the program where that fails. With the model initial-exec it lies in memory
// that each thread has from its start. There is little of it for all libraries of a process: only
// pointers and flags belong there.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace plimsoll::base {

// `Tag` tells values of the same type from each other. The main thread's is never destroyed.
template <typename T, typename Tag>
class PerThread {
 public:
  static T& get() {
    if (t_value != nullptr) return *t_value;
    static const Key kKey;
    auto made = std::make_unique<T>();
    if (!kKey.is_made || pthread_setspecific(kKey.key, made.get()) != 0) throw std::bad_alloc();
    t_value = made.release();
    return *t_value;
  }

 private:
  static void destroy(void* value) {
    t_value = nullptr;
    delete static_cast<T*>(value);
  }
  struct Key {
    pthread_key_t key{};
    const bool is_made = pthread_key_create(&key, destroy) == 0;
  };
  static inline thread_local T* t_value [[gnu::tls_model("initial-exec")]] = nullptr;
};

}  // namespace plimsoll::base
