// LiveIndex finds the lifetimes that are live at an event in O(log n + size of the result).
//
// Lifetimes are in order of birth, so those born by an event are a prefix of the rows. The index
// stores the latest death of every 64 rows, then of every 16 such groups, and so on. A query
// descends only into groups of the prefix in which something dies after the event. The index takes
// 0.07 bytes per lifetime and one pass to build; checkpoints of the live set would need four bytes
// for each live row of each checkpoint (docs/decisions/0019).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::model {

struct Lifetimes;

// Allocated counts until free_requested, active until free_completed.
enum class Liveness : std::uint8_t { kAllocated, kActive };

class LiveIndex {
 public:
  static constexpr std::size_t kRows = 64;    // in a group of the lowest level
  static constexpr std::size_t kFanOut = 16;  // groups in a group of the next level

  LiveIndex() = default;
  LiveIndex(const Lifetimes& lifetimes, Liveness liveness);

  // Appends the rows of `lifetimes` (those the index was built from) that are live after `event`,
  // ascending. `event` is a row of the device's events, or -1 for before the first.
  void append_live(const Lifetimes& lifetimes, std::int64_t event,
                   std::vector<std::uint32_t>& rows) const;

  std::size_t row_count() const { return row_count_; }
  std::size_t memory_bytes() const;

 private:
  class Ends;
  class Query;

  std::vector<std::vector<std::uint32_t>> levels_;  // lowest first; the last has one group
  std::size_t row_count_ = 0;
  Liveness liveness_ = Liveness::kActive;
};

}  // namespace plimsoll::model
