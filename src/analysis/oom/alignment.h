// Finds the point in an earlier step at which that step had come as far as the failed step, by
// comparing the places of the allocations before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/oom/history.h"

namespace plimsoll::analysis::oom {

// Rows of History::made(): one of the failed step, and its counterpart in the earlier step.
struct Pair {
  std::size_t now = 0;
  std::size_t before = 0;
};

struct Alignment {
  Step step;               // the earlier step
  std::size_t anchor = 0;  // row of History::made(): the counterpart of the failed request
  std::vector<Pair> pairs;
};

// Returns the earlier step that is most similar to the failed one, the latest of equals. Empty if
// none is similar: if more than four, and more than 30 %, of the failed step's allocations have no
// counterpart.
std::optional<Alignment> align(const History& history, const Step& failed, std::uint64_t place,
                               const std::vector<Step>& earlier);

// Pairs the allocations [first, last) of two sequences from their ends backwards, as far as they
// are alike.
std::vector<Pair> pair_backwards(const std::vector<Made>& made, std::size_t first_now,
                                 std::size_t last_now, std::size_t first_before,
                                 std::size_t last_before);

}  // namespace plimsoll::analysis::oom
