// What to change at a line that makes tensors which fill much of the peak.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

inline constexpr std::string_view kEachThroughCheckpoint =
    ", each through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)";

bool is_of_training(std::string_view category);

// How many tensors of a size are live at an event.
std::size_t live_of_size(const Peak& peak, std::uint32_t event, std::uint64_t size_bytes);

// The next steps for `parts` of the peak, which one line or one function makes.
Steps steps_for_line(const Peak& peak, const std::vector<std::uint32_t>& parts,
                     const std::string& line);

// The saving, or 0 if it is too small to be stated.
std::uint64_t worthwhile(const Peak& peak, std::uint64_t saving_bytes);

// If a line with torch.nn.functional.one_hot, other than those of the parts, has a large share of
// the peak: adds evidence and advice about it.
void advise_one_hot(const Peak& peak, Explanation& explanation);

// By how much the peak falls if the line of `largest` wrote into tensors of the final size instead
// of making each longer: an old tensor is then never live while the new one is.
std::uint64_t saving_of_appended(const Peak& peak, const PeakAllocation& largest);

// The next step if torch.func (jacrev, vmap, …) runs the allocation for all rows at once; empty if
// it does not. `what` is computed there: a line or "the model".
std::string chunk_size_advice(const Peak& peak, const PeakAllocation& allocation,
                              const std::string& what);

}  // namespace plimsoll::findings
