// What to change where a program makes tensors that fill much of the peak. Functions that take a
// finding add what they found to its evidence.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

inline constexpr std::string_view kEachThroughCheckpoint =
    ", each through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)";

// The saving, or 0 if it is too small to be stated.
std::uint64_t worthwhile(const Peak& peak, std::uint64_t saving_bytes);

// Orders steps by their savings; those without one come last, in their order.
void order_by_saving(Steps& steps);

// Gives the steps for `parts` of the peak, which one line or one function makes.
void advise_line(const Peak& peak, const Parts& parts, report::Finding& finding);

// If the line of the largest part makes one tensor longer again and again, as torch.cat does with
// the results of each batch, gives the steps: the old tensor is live until the new one is complete.
// Returns whether it does.
bool advise_appended(const Peak& peak, const Parts& parts, report::Finding& finding);

// The steps for what an operator of torch would never store, wherever it is a worthwhile part of
// the peak: scores of attention, differences of all pairs, one-hot tensors.
Steps substitutes(const Peak& peak);

// The step if torch.func (jacrev, vmap, …) runs the line of the allocation for all rows at once.
std::optional<report::FindingStep> chunk_size_step(const Allocation& allocation);

// The steps for the logits of the largest cross entropy before the peak, if a linear operator makes
// them and `parts` contain some of them, their copies or gradients.
Steps steps_for_logits(const Peak& peak, const Parts& parts, report::Finding& finding);

// The steps if the program calls most of the forwards in `explanation` repeatedly before a backward
// frees what they keep, or if an earlier backward has left memory (create_graph=True,
// retain_graph=True).
Steps steps_for_calls(const Peak& peak, Explanation& explanation);

// The steps for activations that torch.utils.checkpoint would compute again in backward.
Steps steps_for_checkpoints(Peak& peak, Explanation& explanation);

}  // namespace plimsoll::findings
