// What stays live after the step that allocated it, and should not: results that a list keeps, and
// activations that backward does not free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "comparison/alignment.h"
#include "comparison/causes.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// Parameters, buffers, gradients and optimizer state.
bool is_meant_to_stay(std::string_view category);

class Retention {
 public:
  Retention(const report::Digest& before, const report::Digest& after, const Alignment& alignment);

  // Whether the second recording keeps more of these allocations after a step than the first one.
  // Never of parameters, buffers, gradients and optimizer state, which are to be kept.
  bool is_kept(const PairAtPoint& row) const;
  // Whether it keeps more of them at the end than halfway.
  bool is_growing(const PairAtPoint& row) const;
  // Whether it keeps about one more of these growing rows for each step, so that memory grows.
  bool grow_each_step(const std::vector<PairAtPoint>& rows) const;
  // Of these rows, how many more are kept for each step; at least 1.
  std::uint64_t kept_per_step(const std::vector<PairAtPoint>& rows) const;
  // Whether the key allocates as much as before, or a multiple that all activations have, and is
  // live at step ends as before, so that it differs at the point only because the points are at
  // different moments of a step.
  bool is_of_another_moment(const PairAtPoint& row, double scale) const;
  // Whether most of what a graph of the first recording contains is live after backward in the
  // second one, as with retain_graph=True.
  bool keeps_graph(const std::string& device) const;

 private:
  struct Counts {
    std::uint64_t at_step_end = 0;
    std::uint64_t at_end = 0;
    std::int64_t bytes_at_step_end = 0;
    std::int64_t most_bytes = 0;  // at any point
  };
  struct Side {
    const report::Digest* digest = nullptr;
    std::vector<Counts> counts;  // by key
  };

  // How many more it keeps halfway, and at the end.
  std::pair<std::uint64_t, std::uint64_t> kept_of(const PairAtPoint& row) const;
  static Side side_of(const report::Digest& digest);
  static Counts counts_of(const Side& side, const report::DigestKey* key);
  // How many steps had ended at the point "step end"; 0 if that is unknown.
  std::uint64_t steps_at_step_end(const std::string& device) const;

  Side before_;
  Side after_;
  const Alignment& alignment_;
};

}  // namespace plimsoll::comparison
