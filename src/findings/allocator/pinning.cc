#include "findings/allocator/pinning.h"

#include <algorithm>
#include <string>

#include "findings/text.h"

namespace plimsoll::findings {

void add_expandable_segments(const Facts& facts, std::uint64_t saving, report::Finding& finding) {
  if (facts.conf.expandable_segments) {
    finding.evidence.emplace_back("expandable_segments is on already.");
  } else {
    finding.steps.push_back(
        step_up_to(facts.names.set_expandable_segments() +
                       " before the process starts: free pieces can then be used together.",
                   saving));
  }
}

void add_pins(const Facts& facts, std::span<const report::PinningLine> lines, std::uint64_t saving,
              report::Finding& finding) {
  for (const report::PinningLine& line : lines.first(std::min(kNamed, lines.size()))) {
    finding.evidence.push_back(
        line.line + " pins " + bytes_text(line.pinned_cached_bytes) + " with " +
        counted(line.blocks, "block") + " of " + bytes_text(line.block_bytes) + " in all" +
        (line.alone_cached_bytes > 0 ? "; " + bytes_text(line.alone_cached_bytes) + " of it alone."
                                     : "."));
  }
  add_expandable_segments(facts, saving, finding);
  const bool is_known = !lines.empty() && is_named(lines.front().line);
  finding.steps.push_back(step_up_to("Allocate " +
                                         (is_known ? "what " + lines.front().line + " keeps"
                                                   : std::string("the long-lived blocks")) +
                                         " before the large temporaries, or copy it to the CPU.",
                                     saving));
}

}  // namespace plimsoll::findings
