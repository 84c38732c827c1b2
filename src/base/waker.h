// What a worker thread sleeps on: a timeout that other threads can cut short.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace plimsoll::base {

class Waker {
 public:
  Waker() noexcept {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#if !defined(__APPLE__)
    pthread_condattr_setclock(&attributes, kClock);
#endif
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  // For hooks: at most one system call and no lock. A nudge just before the thread falls asleep is
  // lost; the sleep's timeout makes up for it.
  void nudge() noexcept { pthread_cond_signal(&condition_); }
  // Wakes the thread. If it is not asleep, its next sleep ends immediately.
  void wake() noexcept {
    pthread_mutex_lock(&mutex_);
    is_woken_ = true;
    pthread_cond_signal(&condition_);
    pthread_mutex_unlock(&mutex_);
  }
  void stop() noexcept {
    pthread_mutex_lock(&mutex_);
    is_stopped_ = true;
    pthread_cond_signal(&condition_);
    pthread_mutex_unlock(&mutex_);
  }
  void restart() noexcept { is_stopped_ = is_woken_ = false; }  // only while no thread sleeps

  // Sleeps for this time, or until woken or stopped. Returns false once stop() has been called.
  bool sleep(std::int64_t time_ns) noexcept {
    timespec until{};
    clock_gettime(kClock, &until);
    const std::int64_t ns = until.tv_nsec + time_ns;
    until.tv_sec += static_cast<time_t>(ns / 1'000'000'000);
    until.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    pthread_mutex_lock(&mutex_);
    if (!is_stopped_ && !is_woken_) pthread_cond_timedwait(&condition_, &mutex_, &until);
    is_woken_ = false;
    const bool goes_on = !is_stopped_;
    pthread_mutex_unlock(&mutex_);
    return goes_on;
  }

 private:
#if defined(__APPLE__)
  static constexpr clockid_t kClock = CLOCK_REALTIME;
#else
  static constexpr clockid_t kClock = CLOCK_MONOTONIC;
#endif
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition_{};
  bool is_stopped_ = false;
  bool is_woken_ = false;
};

}  // namespace plimsoll::base
