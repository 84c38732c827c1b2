// The most bytes that were live, with their roles, and reserved, during each of several spans of
// time, which may overlap in any way.
//
// What an allocation is may be told after the peak (a gradient, once it is accumulated): then the
// peaks that it was part of learn of it.
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

// Live bytes by plimsoll_role.
using RoleBytes = std::array<std::uint64_t, 6>;

struct DevicePeaks {
  std::uint64_t live_bytes = 0;
  RoleBytes roles{};         // of live_bytes, which they sum to
  std::uint64_t serial = 0;  // allocations from this one on came after the peak of live bytes
  std::uint64_t reserved_bytes = 0;
  std::uint8_t phase = 0;  // plimsoll_phase of the allocation that made the peak

  void raise(const DevicePeaks& to) {
    reserved_bytes = std::max(reserved_bytes, to.reserved_bytes);
    if (to.live_bytes <= live_bytes) return;
    live_bytes = to.live_bytes;
    roles = to.roles;
    serial = to.serial;
    phase = to.phase;
  }
};

// An allocation that lives has become something else.
struct RoleChange {
  std::uint64_t serial = 0;
  std::uint64_t size_bytes = 0;
  std::uint8_t device = 0;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
};

class PeakSpans {
 public:
  static constexpr std::size_t kMost = 1024;  // spans that nobody ends must not fill the memory

  bool is_empty() const { return spans_.empty(); }

  // So much there is on `device` now. Told at the beginning of a span for all devices.
  void see(std::uint8_t device, const DevicePeaks& now) {
    if (!spans_.empty()) (*spans_.back().peaks)[device].raise(now);
  }
  void see(const RoleChange& change) {
    for (Span& span : spans_) {
      DevicePeaks& peaks = (*span.peaks)[change.device];
      if (change.serial >= peaks.serial) continue;
      peaks.roles[change.from] -= change.size_bytes;
      peaks.roles[change.to] += change.size_bytes;
    }
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
