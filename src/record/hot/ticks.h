// Time, cheap enough for every event: the processor's time-stamp counter if it is steady, else the
// monotonic clock. The drain converts ticks into nanoseconds since the Unix epoch by reading both
// clocks regularly and interpolating. Jumps of the wall clock during the life of the process are
// ignored, so time never goes backwards.
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

// The current ticks, read after every earlier load: if one thread observed another's action, its
// ticks are later. The order of a free and the allocation that reuses its memory depends on this.
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

// The clocks that a TickClock reads: the counter, the monotonic clock and the wall clock.
struct TickReaders {
  std::uint64_t (*ticks)() noexcept;
  std::uint64_t (*clock_ns)() noexcept;
  std::int64_t (*wall_ns)() noexcept;  // since the Unix epoch

  static TickReaders of(TickSource source) noexcept;
};

class TickClock {
 public:
  // Tests pass fake readers to the second constructor.
  explicit TickClock(TickSource source) noexcept : TickClock(source, TickReaders::of(source)) {}
  TickClock(TickSource source, const TickReaders& readers) noexcept;

  // Reads both clocks. Call it before converting the times of new events.
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
  bool read_clocks(Anchor& anchor) const noexcept;

  TickSource source_;
  TickReaders readers_;
  std::int64_t epoch_offset_ns_ = 0;  // wall clock minus monotonic clock
  std::array<Anchor, kAnchors> anchors_{};
  std::size_t count_ = 0;  // of all anchors so far; the last kAnchors are stored
};

}  // namespace plimsoll::record
