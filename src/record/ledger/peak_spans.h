// The peaks of live bytes, by use, and of reserved bytes in each of several time spans, which may
// overlap arbitrarily.
//
// An allocation's use may become known after the peak (a gradient, once it is accumulated): then
// the peaks that include it are updated. Of the allocations that end after a peak, the largest are
// kept.
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

#include "plimsoll/peak_c.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::record {

// Live bytes by plimsoll_role, and by PLIMSOLL_USE_.
using RoleBytes = std::array<std::uint64_t, PLIMSOLL_ROLE_WORKSPACE + 1>;
using UseBytes = std::array<std::uint64_t, PLIMSOLL_USES>;

// An allocation that has ended, so that a peak which includes it can be described.
struct Ended {
  std::uint64_t serial = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t site = 0;
  std::uint32_t tensor = 0;
  std::uint8_t device = 0;
  std::uint8_t use = 0;  // by PLIMSOLL_USE_
  bool is_adopted = false;
};

// The largest of the allocations that were live at a peak and have ended since.
class LargestEnded {
 public:
  static constexpr std::size_t kMost = 5;

  void add(const Ended& ended) {
    if (count_ == kMost && ended.size_bytes <= rows_.back().size_bytes) return;
    if (count_ < kMost) ++count_;
    std::size_t at = count_ - 1;
    for (; at > 0 && rows_[at - 1].size_bytes < ended.size_bytes; --at) rows_[at] = rows_[at - 1];
    rows_[at] = ended;
  }
  const Ended* begin() const { return rows_.data(); }
  const Ended* end() const { return rows_.data() + count_; }

 private:
  std::array<Ended, kMost> rows_;  // largest first
  std::size_t count_ = 0;
};

struct DevicePeaks {
  std::uint64_t live_bytes = 0;
  UseBytes uses{};           // of live_bytes; they sum to it
  std::uint64_t serial = 0;  // allocations from this serial on came after the peak of live bytes
  std::uint64_t reserved_bytes = 0;
  std::uint8_t phase = 0;  // plimsoll_phase of the allocation that made the peak
  LargestEnded ended = {};

  void raise(const DevicePeaks& to) {
    reserved_bytes = std::max(reserved_bytes, to.reserved_bytes);
    if (to.live_bytes <= live_bytes) return;
    live_bytes = to.live_bytes;
    uses = to.uses;
    serial = to.serial;
    phase = to.phase;
    ended = to.ended;
  }
};

// It is known now that a live allocation, or one that has just ended, is used for something else.
struct UseChange {
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
  void see(const UseChange& change) {
    for (Span& span : spans_) {
      DevicePeaks& peaks = (*span.peaks)[change.device];
      if (change.serial >= peaks.serial) continue;
      peaks.uses[change.from] -= change.size_bytes;
      peaks.uses[change.to] += change.size_bytes;
    }
  }
  void see(const Ended& ended) {
    for (Span& span : spans_) {
      DevicePeaks& peaks = (*span.peaks)[ended.device];
      if (ended.serial < peaks.serial) peaks.ended.add(ended);
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
