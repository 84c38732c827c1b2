// What findings about fragmentation share: the lines that pin memory, and what to do about them.
#pragma once

#include <cstdint>
#include <span>

#include "findings/rules.h"
#include "report/fragmentation.h"

namespace plimsoll::findings {

// Adds the step that turns expandable segments on; if they are on, says so.
void add_expandable_segments(const Facts& facts, std::uint64_t saving, report::Finding& finding);

// Adds a sentence for each of the first few lines that pin memory, and the steps against them.
// `joinable`: the bytes of the saving that expandable segments could join for the request.
void add_pins(const Facts& facts, std::span<const report::PinningLine> lines, std::uint64_t saving,
              std::uint64_t joinable, report::Finding& finding);

}  // namespace plimsoll::findings
