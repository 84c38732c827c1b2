// What runs again and again before a backward frees what it made: evidence and advice for
// activations.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

// Adds the line of the program that calls most of the forwards behind `explanation`, if it does so
// again and again, and what an earlier backward has left (create_graph=True).
void add_calls(const Peak& peak, const Explanation& explanation, report::Finding& finding);

// The function of the program that makes most of `explanation`, with its bytes, and is no forward
// and calls no layer: one that a checkpoint can run. Empty: there is none.
std::pair<std::string, std::uint64_t> function_of_most(const Peak& peak,
                                                       const Explanation& explanation);

}  // namespace plimsoll::analysis::findings
