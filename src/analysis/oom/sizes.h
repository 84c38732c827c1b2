// Predicts the sizes of the allocations that a failed step did not reach, from an earlier step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/oom/alignment.h"
#include "analysis/oom/history.h"

namespace plimsoll::analysis::oom {

class Sizes {
 public:
  // `others`: earlier steps than the aligned one. From them, places that the failed step did not
  // reach show how they grow with the batch.
  Sizes(const History& history, const Alignment& alignment, std::uint64_t requested_bytes,
        const std::vector<Step>& others);

  // The bytes in the failed step of the counterpart of an allocation of the earlier step.
  std::uint64_t of(std::size_t before) const;

  // The median growth of what scales; 1: the batches are alike.
  double ratio() const { return ratio_; }

 private:
  void note(std::size_t before, std::uint64_t place, std::uint64_t bytes);
  void compare_with(const std::vector<Step>& others);

  const History& history_;
  const Alignment& alignment_;
  // By place and bytes in the earlier step, and by bytes alone: bytes in the failed step, and how
  // often they were seen.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> by_place_;
  std::unordered_map<std::uint64_t, std::map<std::uint64_t, std::size_t>> by_bytes_;
  // By row of the earlier step: the power of the ratio by which its bytes grow.
  std::unordered_map<std::size_t, double> powers_;
  double ratio_ = 1.0;
};

}  // namespace plimsoll::analysis::oom
