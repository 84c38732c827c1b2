// A value for each thread, destroyed with the thread. A thread_local object with a destructor would
// end the program if there is no memory to register it; this throws std::bad_alloc instead.
//
// A thread_local object of a library loaded by dlopen() is allocated at a thread's first use, and
// glibc ends the program if that fails. With the initial-exec model it is part of the memory that
// every thread has from its start. That memory is scarce and shared by all libraries of a process:
// use it only for pointers and flags.
#pragma once

#include <pthread.h>

#include <memory>
#include <new>

namespace plimsoll::base {

// `Tag` distinguishes several values of the same type. The main thread's value is never destroyed.
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
