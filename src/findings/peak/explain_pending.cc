// freed_but_pending: memory that the program has freed, and that the allocator cannot reuse until
// another stream has finished with it, fills much of the peak.
#include <algorithm>
#include <string>
#include <utility>

#include "findings/peak/peak.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// When the program frees it. Its block may be reused much later.
std::uint32_t freed_at(const Peak& peak, const Allocation& allocation) {
  const std::uint32_t requested = peak.device().trace.lifetimes.free_requested[allocation.lifetime];
  if (requested == model::kBeforeRecording) return 0;
  return std::min(requested, allocation.died);
}

}  // namespace

void explain_pending(Peak& peak, Explanations& out) {
  Explanation explanation(
      peak.live_if([&](const Allocation& each) { return freed_at(peak, each) <= peak.event(); }));
  if (explanation.bytes < kLeastPeakBytes) return;
  const std::uint64_t saving =
      peak.saving([&](const Allocation& each) { return freed_at(peak, each); });
  if (!is_at_least(saving, kLeastShareOfMistake, peak.bytes())) return;
  explanation.kind = Kind::kMistake;
  report::Finding& finding = explanation.finding;
  finding.id = "freed_but_pending";
  finding.title = "Freed memory that waits for a stream is " + amount_text(peak, explanation.bytes);
  const auto [line, of_line] = line_of_most(explanation.parts);
  if (is_named(line)) {
    finding.evidence.push_back("Most of it was created at " + line + ": " + bytes_text(of_line) +
                               ", in " + counted(explanation.parts.size(), "block") + " in all.");
  }
  finding.evidence.push_back(
      "The program has freed these blocks. Another stream may still use them (record_stream), so "
      "the allocator cannot reuse them yet: " +
      bytes_text(peak.bytes() - explanation.bytes) + " are in use.");
  finding.evidence.push_back(
      "If each block could be reused when the program frees it, the peak would be " +
      bytes_text(peak.bytes() - saving) + ".");
  const std::string& module = peak.facts().names.module;
  finding.steps = {
      step_up_to("Before " + (is_named(line) ? "what " + line + " makes" : "this memory") +
                     " is freed, let the stream that allocated it wait for the one that uses it (" +
                     module +
                     ".current_stream().wait_stream(…)), and do not call record_stream on "
                     "it.",
                 saving),
      step_up_to("If collectives use it, set TORCH_NCCL_AVOID_RECORD_STREAMS=1 before the process "
                 "starts.",
                 saving),
      {"Synchronize the streams before more of it is allocated: the CPU runs ahead of them."}};
  const Parts distributed = those_of(explanation.parts, [](const Allocation& each) {
    return each.has(evidence::StackFlag::kDistributed);
  });
  if (is_at_least(bytes_of(distributed), kShareOfPlace, explanation.bytes)) {
    finding.steps[1].text =
        "Set TORCH_NCCL_AVOID_RECORD_STREAMS=1 before the process starts: collectives then do not "
        "call record_stream.";
    std::swap(finding.steps[0], finding.steps[1]);
  }
  out.push_back(std::move(explanation));
}

}  // namespace plimsoll::findings
