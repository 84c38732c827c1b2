// What to change where a program makes tensors that fill much of the peak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

inline constexpr std::string_view kEachThroughCheckpoint =
    ", each through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)";

bool is_of_training(std::string_view category);

// The saving, or 0 if it is too small to be stated.
std::uint64_t worthwhile(const Peak& peak, std::uint64_t saving_bytes);

// By how much the peak falls if the program does not make the allocations for which
// is_absent(const PeakAllocation&) holds.
template <typename IsAbsent>
std::uint64_t saving_if_absent(const Peak& peak, IsAbsent&& is_absent) {
  std::vector<std::uint32_t> rows;
  peak.for_each([&](const PeakAllocation& each) {
    if (is_absent(each)) rows.push_back(each.lifetime);
  });
  return peak.replay().never_made(rows);
}

// Orders steps by their savings; those without one come last, in their order.
void order_by_saving(Steps& steps);

// Gives the steps for `parts` of the peak, which one line or one function makes, and the evidence
// that they need.
void advise_line(const Peak& peak, const std::vector<std::uint32_t>& parts, const std::string& line,
                 report::Finding& finding);

// The steps for what an operator of torch would never store, wherever it is a worthwhile part of
// the peak: scores of attention, differences of all pairs, one-hot tensors.
Steps substitutes(const Peak& peak);

// The step if torch.func (jacrev, vmap, …) runs the line of the allocation for all rows at once.
std::optional<report::FindingStep> chunk_size_step(const Peak& peak,
                                                   const PeakAllocation& allocation);

}  // namespace plimsoll::findings
