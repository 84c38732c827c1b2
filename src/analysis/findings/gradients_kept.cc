// gradients_kept: the gradients of one step are still allocated while the next one's forward runs.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "analysis/backwards.h"
#include "analysis/findings/live.h"
#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 20;
constexpr double kShareOfPeak = 0.05;
// With fewer, gathering gradients over two batches looks the same.
constexpr std::size_t kFewestBackwards = 4;

// The least gradient bytes live at any backward's beginning but the first: gathering over several
// batches begins each round without any.
std::uint64_t least_kept(const Facts& facts, const DeviceFacts& device,
                         const std::vector<std::uint32_t>& begins) {
  const model::Trace& trace = facts.trace;
  const auto bytes = held_at(begins, trace, device.trace, [&](std::size_t event) {
    return trace.strings[trace.events.category[event]] == model::kGradient;
  });
  return *std::min_element(bytes.begin() + 1, bytes.end());
}

// Of the gradients live at the peak, those of an earlier backward.
std::uint64_t old_at_peak(const Facts& facts, const DeviceFacts& device,
                          const report::MomentRow& peak, const std::vector<std::uint32_t>& begins) {
  if (!peak.event) return 0;
  const auto next = std::ranges::upper_bound(begins, *peak.event);
  const bool is_in_backward = peak.phase == "backward" && next != begins.begin();
  const std::uint64_t before = is_in_backward ? *std::prev(next) : *peak.event;
  std::uint64_t bytes = 0;
  for_each_live(facts, device, peak, model::kGradient, [&](std::uint32_t born, std::uint64_t size) {
    if (born < before) bytes += size;
  });
  return bytes;
}

}  // namespace

Findings gradients_kept(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const report::MomentRow* peak = own_peak(facts, device);
    if (peak == nullptr || peak->phase == "optimizer") continue;
    const auto begins = backward_begins(facts.trace, device.trace);
    if (begins.size() < kFewestBackwards) continue;
    const std::uint64_t kept = least_kept(facts, device, begins);
    const std::uint64_t at_peak = old_at_peak(facts, device, *peak, begins);
    if (kept < kLeastBytes || at_peak < kLeastBytes) continue;
    if (!is_at_least(at_peak, kShareOfPeak, peak->live_bytes)) continue;
    report::Finding finding;
    finding.id = "gradients_kept";
    finding.title = "Gradients of the step before stay allocated while forward runs on " +
                    device.name + ": " + bytes_text(at_peak) + " of the peak";
    finding.evidence.push_back("Each of " + counted(begins.size(), "backward") +
                               " but the first began with " + bytes_text(kept) +
                               " of gradients or more.");
    finding.next_step =
        "Call optimizer.zero_grad(set_to_none=True), which is the default, right after "
        "optimizer.step() and not after the forward; unless you gather gradients over all these "
        "batches.";
    finding.saving_bytes = at_peak;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::analysis::findings
