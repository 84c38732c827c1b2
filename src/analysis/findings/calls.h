// What runs again and again before a backward frees what it made: evidence and advice for
// activations.
#pragma once

#include "analysis/findings/peak.h"

namespace plimsoll::analysis::findings {

// Adds the line of the program that calls most of the forwards behind `explanation`, if it does so
// again and again, and what an earlier backward has left (create_graph=True).
void add_calls(const Peak& peak, const Explanation& explanation, report::Finding& finding);

}  // namespace plimsoll::analysis::findings
