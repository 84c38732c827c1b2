// The peaks of live bytes, by role, and of reserved bytes in each of several time spans. Spans may
// overlap arbitrarily.
//
// The role of an allocation may become known only after the peak, as that of a gradient once it is
// accumulated. The peaks that include the allocation are then updated.
//
// Processing an event takes the same time however many spans run: spans are ordered by beginning,
// and each stores the peak from its own beginning to that of the next one, so the peak of a span is
// the maximum of its own and all later ones. A span that ends passes its peak to the one before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {

// Live bytes by plimsoll_role.
using RoleBytes = std::array<std::uint64_t, PLIMSOLL_ROLE_WORKSPACE + 1>;

struct DevicePeaks {
  std::uint64_t live_bytes = 0;
  RoleBytes roles{};         // of live_bytes; they sum to it
  std::uint64_t serial = 0;  // allocations from this serial on came after the peak of live bytes
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

// A live allocation's role has changed.
struct RoleChange {
  std::uint64_t serial = 0;
  std::uint64_t size_bytes = 0;
  std::uint8_t device = 0;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
};

class PeakSpans {
 public:
  static constexpr std::size_t kMost = 1024;  // bounds the memory taken by spans that are never
                                              // ended

  bool is_empty() const { return spans_.empty(); }

  // Updates the totals of `device`; call it for all devices when a span begins.
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
  // Returns the id of the span; 0 if there is no space for it.
  std::uint64_t begin() noexcept {
    if (spans_.size() >= kMost) return 0;
    try {
      spans_.push_back({next_id_, std::make_unique<Peaks>()});
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return next_id_++;
  }
  // Returns zeros if the span is unknown.
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

  std::vector<Span> spans_;  // by id, in order of their beginnings
  std::uint64_t next_id_ = 1;
};

}  // namespace plimsoll::record
