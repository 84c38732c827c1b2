// Time, cheap enough for every event: the processor's time-stamp counter where it counts steadily,
// the monotonic clock elsewhere. The drain turns ticks into nanoseconds since the Unix epoch by
// looking at both clocks again and again, and going straight in between; wall-clock jumps during
// the life of the process are not followed, so time never goes back.
#pragma once

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace plimsoll::record {

enum class TickSource : std::uint8_t { kClock, kTsc };

TickSource best_tick_source() noexcept;

inline std::uint64_t clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Ticks now, read after every load before it: what one thread saw of another one's doing has the
// later ticks. The order of a free and the allocation that reuses its memory depends on it.
inline std::uint64_t read_ticks(TickSource source) noexcept {
#if defined(__x86_64__)
  if (source == TickSource::kTsc) [[likely]] {
    _mm_lfence();
    return __rdtsc();
  }
#else
  static_cast<void>(source);
#endif
  return clock_ns();
}

class TickClock {
 public:
  explicit TickClock(TickSource source) noexcept;

  // Looks at both clocks. Call it before times of new events are asked for.
  void calibrate() noexcept;
  std::int64_t to_ns(std::uint64_t ticks) const noexcept;  // since the Unix epoch

 private:
  struct Anchor {
    std::uint64_t ticks = 0;
    std::int64_t time_ns = 0;
  };
  static constexpr std::size_t kAnchors = 64;

  const Anchor& anchor(std::size_t ago) const noexcept {
    return anchors_[(count_ - 1 - ago) % kAnchors];
  }
  bool look(Anchor& anchor) const noexcept;

  TickSource source_;
  std::int64_t epoch_offset_ns_ = 0;  // what the wall clock is ahead of the monotonic one
  std::array<Anchor, kAnchors> anchors_{};
  std::size_t count_ = 0;  // of all anchors ever; the last kAnchors are there
};

}  // namespace plimsoll::record
