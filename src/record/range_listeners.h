// The listeners for ranges: the program's listener and, while a recording needs layer calls, a
// listener of the recorder that marks them and forwards each range.
#pragma once

#include <cstdint>
#include <mutex>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {

class RangeListeners {
 public:
  // Never destroyed: ranges may end until process exit.
  static RangeListeners& get() noexcept;
  RangeListeners(const RangeListeners&) = delete;
  RangeListeners& operator=(const RangeListeners&) = delete;

  // The pointer that adapters read: plimsoll_recorder_api::range_listener.
  static constexpr const plimsoll_range_listener* const* address() noexcept { return &g_called; }
  static const plimsoll_range_listener* called() noexcept {
    return __atomic_load_n(&g_called, __ATOMIC_ACQUIRE);
  }

  void set_program(const plimsoll_range_listener* listener) noexcept;
  void set_marking_recordings(std::uint64_t count) noexcept;
  // Called in the child of a fork: a thread that does not exist there may have held the lock.
  void begin_in_child(std::uint64_t marking_recordings) noexcept;

 private:
  constexpr RangeListeners() = default;
  void publish() noexcept;

  static const plimsoll_range_listener* g_called;  // atomic

  std::mutex mutex_;
  std::uint64_t marking_recordings_ = 0;
};

}  // namespace plimsoll::record
