#include "record/hot/ticks.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace plimsoll::record {
namespace {

#if defined(__x86_64__)
// Whether the counter runs at a constant speed in every power state of the processor.
bool tsc_is_invariant() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
}

// Whether Linux distrusts the counter: it checks whether the counters of all processors agree and,
// if not, uses another clock source.
bool kernel_distrusts_tsc() noexcept {
  std::FILE* file =
      std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (file == nullptr) return false;
  char word[32] = {};
  const bool is_read = std::fgets(word, sizeof word, file) != nullptr;
  std::fclose(file);
  if (!is_read) return false;
  for (const char* other : {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"}) {
    if (std::strncmp(word, other, std::strlen(other)) == 0) return true;
  }
  return false;
}
#endif

}  // namespace

TickSource best_tick_source() noexcept {
#if defined(__x86_64__)
  if (tsc_is_invariant() && !kernel_distrusts_tsc()) return TickSource::kTsc;
#endif
  return TickSource::kClock;
}

TickReaders TickReaders::of(TickSource source) noexcept {
  constexpr auto kWallNs = []() noexcept {
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    return std::int64_t{wall.tv_sec} * 1'000'000'000 + std::int64_t{wall.tv_nsec};
  };
  if (source == TickSource::kClock) return {record::clock_ns, record::clock_ns, kWallNs};
  constexpr auto kTicks = []() noexcept { return read_ticks(TickSource::kTsc); };
  return {kTicks, record::clock_ns, kWallNs};
}

TickClock::TickClock(TickSource source, const TickReaders& readers) noexcept
    : source_(source), readers_(readers) {
  const std::int64_t wall_ns = readers_.wall_ns();
  epoch_offset_ns_ = wall_ns - static_cast<std::int64_t>(readers_.clock_ns());
  Anchor first;
  read_clocks(first);
  anchors_[0] = first;
  count_ = 1;
}

// Reads the clock between two readings of the counter and keeps the tightest of a few tries.
// Returns false if the thread was interrupted in every try.
bool TickClock::read_clocks(Anchor& anchor) const noexcept {
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t before = readers_.ticks();
    const std::uint64_t now_ns = readers_.clock_ns();
    const std::uint64_t width = readers_.ticks() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    anchor.ticks = before + width / 2;
    anchor.time_ns = static_cast<std::int64_t>(now_ns) + epoch_offset_ns_;
  }
  return narrowest < 20'000;  // a few microseconds on any processor
}

void TickClock::calibrate() noexcept {
  if (source_ == TickSource::kClock) return;
  Anchor now;
  const bool is_good = read_clocks(now);
  const Anchor& last = anchor(0);
  if (now.ticks <= last.ticks || now.time_ns <= last.time_ns) return;
  const bool is_far = now.time_ns - last.time_ns > 50'000;
  if (count_ > 1 && (!is_far || !is_good)) return;
  anchors_[count_ % kAnchors] = now;
  ++count_;
}

std::int64_t TickClock::to_ns(std::uint64_t ticks) const noexcept {
  if (source_ == TickSource::kClock) return static_cast<std::int64_t>(ticks) + epoch_offset_ns_;
  if (count_ < 2) return anchor(0).time_ns;
  const std::size_t oldest = std::min(count_, kAnchors) - 1;
  std::size_t end = 0;  // the newest anchor not after `ticks`, or the newest one
  while (end + 1 < oldest && anchor(end + 1).ticks > ticks) ++end;
  const Anchor& b = anchor(end);
  const Anchor& a = anchor(end + 1);
  const double ns_per_tick =
      static_cast<double>(b.time_ns - a.time_ns) / static_cast<double>(b.ticks - a.ticks);
  const auto delta = static_cast<double>(static_cast<std::int64_t>(ticks - a.ticks));
  return a.time_ns + static_cast<std::int64_t>(delta * ns_per_tick);
}

}  // namespace plimsoll::record
