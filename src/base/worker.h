// A worker thread inside the host process. It receives none of the host's signals, has a small
// stack, and can be forgotten in the child of a fork, where it does not exist.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <new>

#include "base/waker.h"

namespace plimsoll::base {

class Worker {
 public:
  // noexcept, because an exception that leaves a thread ends the process.
  using Body = void* (*)(void* argument) noexcept;

  explicit Worker(const char* name) noexcept : name_(name) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Waker& waker() noexcept { return waker_; }

  // Runs `body`, which must return once waker().sleep() returns false. Returns whether the thread
  // runs.
  bool start(Body body, void* argument) noexcept {
    if (is_running_) return true;
    waker_.restart();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    int error = pthread_create(&thread_, &attributes, body, argument);
    // A large amount of thread-local data may not fit into a stack of this size.
    if (error != 0) error = pthread_create(&thread_, nullptr, body, argument);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    is_running_ = error == 0;
#if defined(__linux__)
    if (is_running_) pthread_setname_np(thread_, name_);
#endif
    return is_running_;
  }
  void stop() noexcept {
    if (!is_running_) return;
    waker_.stop();
    pthread_join(thread_, nullptr);
    is_running_ = false;
  }
  // Requests a stop without waiting for the thread.
  void stop_unseen() noexcept {
    if (!is_running_) return;
    waker_.stop();
    pthread_detach(thread_);
    is_running_ = false;
  }
  void forget() noexcept {
    ::new (static_cast<void*>(&waker_)) Waker;
    is_running_ = false;
  }

 private:
  static constexpr std::size_t kStackBytes = 1u << 20;

  const char* name_;
  Waker waker_;
  pthread_t thread_{};
  bool is_running_ = false;
};

}  // namespace plimsoll::base
