// The most bytes that were live, and reserved, during each of several spans of time, which may
// overlap in any way.
//
// An event is looked at once, however many spans run: they lie in the order in which they
// began, each keeps the peak from its own beginning to that of the next one, and so the peak of a
// span is the greatest among it and all that began later. One that ends leaves its peak to the one
// before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace plimsoll::record {

struct DevicePeaks {
  std::uint64_t live_bytes = 0;
  std::uint64_t reserved_bytes = 0;

  void raise(const DevicePeaks& to) {
    live_bytes = std::max(live_bytes, to.live_bytes);
    reserved_bytes = std::max(reserved_bytes, to.reserved_bytes);
  }
};

class PeakSpans {
 public:
  static constexpr std::size_t kMost = 4096;  // spans that nobody ends must not fill the memory

  bool is_empty() const { return spans_.empty(); }

  // So much there is on `device` now. Told at the beginning of a span for all devices.
  void see(std::uint8_t device, const DevicePeaks& now) {
    if (!spans_.empty()) (*spans_.back().peaks)[device].raise(now);
  }
  // Its id; 0 when there is no room for it.
  std::uint64_t begin() noexcept {
    if (spans_.size() >= kMost) return 0;
    try {
      spans_.push_back({next_id_, std::make_unique<Peaks>()});
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return next_id_++;
  }
  // 0 for a span that does not run.
  DevicePeaks peaks(std::uint64_t id, std::uint8_t device) const {
    DevicePeaks peaks;
    for (auto span = find(id); span != spans_.end(); ++span) peaks.raise((*span->peaks)[device]);
    return peaks;
  }
  void end(std::uint64_t id) {
    const auto span = find(id);
    if (span == spans_.end()) return;
    if (span != spans_.begin()) {
      Peaks& before = *std::prev(span)->peaks;
      for (std::size_t i = 0; i < before.size(); ++i) {
        before[i].raise((*span->peaks)[i]);
      }
    }
    spans_.erase(span);
  }

 private:
  using Peaks = std::array<DevicePeaks, 256>;
  struct Span {
    std::uint64_t id = 0;
    std::unique_ptr<Peaks> peaks;
  };

  std::vector<Span>::const_iterator find(std::uint64_t id) const {
    const auto span =
        std::lower_bound(spans_.begin(), spans_.end(), id,
                         [](const Span& each, std::uint64_t of) { return each.id < of; });
    return span != spans_.end() && span->id == id ? span : spans_.end();
  }

  std::vector<Span> spans_;  // by id, which is the order of their beginnings
  std::uint64_t next_id_ = 1;
};

}  // namespace plimsoll::record
