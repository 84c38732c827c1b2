// What the peak of a device would be if the program were changed: the recorded events are replayed
// with some of the allocations absent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::whatif {

// When a change removes an allocation: from one event on, until another. Never if they are equal.
struct Absence {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// An allocation that a change frees at an event, if it is not dead by then.
struct Freed {
  std::uint32_t row = 0;
  std::uint32_t event = model::kNone;  // kNone: no change
};

// Code that runs in forward and, after a change, again in backward.
struct Run {
  std::vector<std::uint32_t> rows;     // what it keeps for backward, by birth
  std::uint32_t done = 0;              // the event after which it has run
  std::uint32_t again = model::kNone;  // the event before which it runs again
};

class Replay {
 public:
  Replay(const model::Trace& trace, const model::DeviceTrace& device);

  std::uint64_t peak_bytes() const { return peak_bytes_; }
  // The peak after a change. `absent` takes a row of the device's lifetimes and returns its
  // Absence; it is called once for each, by birth, without those from before the recording.
  template <typename Absent>
  std::uint64_t peak_if(Absent&& absent) const {
    std::vector<std::uint64_t> change = change_;  // sums wrap
    for (std::uint32_t row = first_; row < lifetimes_.size(); ++row) {
      remove(lifetimes_[row], absent(row), change);
    }
    return peak_of(change);
  }

  // The most bytes live after an event for which is_counted(event).
  template <typename IsCounted>
  std::uint64_t most_after(IsCounted&& is_counted) const {
    std::uint64_t live = before_, most = 0;
    for (std::uint32_t event = 0; event + 1 < change_.size(); ++event) {
      live += change_[event];
      // A hostile file may have any sizes: sums that wrap are no peak.
      const bool is_sum = live < std::uint64_t{1} << 63u;
      if (live > most && is_sum && is_counted(event)) most = live;
    }
    return most;
  }

  // The named changes, each with the bytes that it saves. `rows` are rows of the device's
  // lifetimes.

  // The program does not make them.
  std::uint64_t never_made(std::span<const std::uint32_t> rows) const;
  // The program frees each at an event.
  std::uint64_t freed_early(std::span<const Freed> rows) const;
  // At most `count` of them are live at any time: each is made only when the one `count` before it
  // has died.
  std::uint64_t at_most(std::size_t count, std::span<const std::uint32_t> rows) const;
  // The code that makes `forward` runs in 16 chunks, so none of them is ever whole. Its backward
  // still makes whole gradients: at most one of `backward` is live at any time. A checkpoint keeps
  // what the code reads, `read`, until the first of them after it dies.
  std::uint64_t in_chunks(std::span<const std::uint32_t> forward,
                          std::span<const std::uint32_t> backward,
                          std::span<const std::uint32_t> read) const;
  // Each run keeps only its last row, the input of what follows, until it runs again.
  std::uint64_t recomputed(std::span<const Run> runs) const;

 private:
  struct Life {
    std::uint32_t born = 0;
    std::uint32_t died = 0;
    std::uint64_t bytes = 0;
  };
  static void remove(const Life& life, Absence absence, std::vector<std::uint64_t>& change);
  void delay(std::size_t count, std::span<const std::uint32_t> rows,
             std::vector<std::uint64_t>& change) const;
  std::uint64_t saved(const std::vector<std::uint64_t>& change) const;
  std::uint64_t peak_of(const std::vector<std::uint64_t>& change) const;

  std::vector<Life> lifetimes_;
  std::uint32_t first_ = 0;            // the first lifetime of the recording itself
  std::uint64_t before_ = 0;           // live before the first event
  std::vector<std::uint64_t> change_;  // of live bytes, by event
  std::uint64_t peak_bytes_ = 0;
};

}  // namespace plimsoll::analysis::whatif
