// stranded_memory: the allocator requested more memory from the driver although much was free,
// because the free memory could not serve the request and could not be released. Cached bytes are
// not waste by themselves, so this is measured where it had a cost: at the peak of reserved bytes,
// for the request that raised it. The same id reports cached blocks that nothing pins, if far more
// was reserved than was ever live: the allocator keeps blocks of every shape that it has served,
// and returns them to the driver only when the device is full.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/pinning.h"
#include "base/units.h"
#include "findings/allocator/pinning.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/live_set.h"
#include "model/segment_release.h"

namespace plimsoll::findings {
namespace {

using model::Action;

// A quarter of the reserved bytes, if that exceeds what a small change of the batch would need.
// Healthy training wastes up to a sixth, because of rounding, and because some blocks of one phase
// do not suit another.
constexpr std::uint64_t kMuchBytes = std::uint64_t{256} << 20;
constexpr double kMuchShare = 0.25;
// A smaller share of stranded bytes counts if that much memory is worth a setting.
constexpr std::uint64_t kLargeBytes = std::uint64_t{1} << 30;
constexpr double kLargeShare = 0.10;

// The allocator caches smaller requests in blocks of 2 MiB and 20 MiB, which serve all their sizes.
constexpr std::uint64_t kLargeRequest = std::uint64_t{10} << 20;
// One call that requests this many sizes has inputs of different shapes.
constexpr std::size_t kFewestSizes = 5;
constexpr std::size_t kLinesNamed = 4;
// With less of other streams and pools, or of the device, something else matters more.
constexpr double kMostOf = 0.5;

// "Calls request different sizes: train.py:9 (f) 9 sizes up to 27.0 MiB, …", the lines with the
// most sizes of one call first; empty if no line requests many sizes, some of them large.
std::string sizes_text(const Facts& facts, const model::DeviceTrace& device) {
  std::map<const model::Site*, std::set<std::uint64_t>> sizes_of;
  for (std::size_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] != Action::kAlloc) continue;
    sizes_of[&facts.trace.site(device, event)].insert(device.events.size_bytes[event]);
  }
  using Sizes = std::pair<std::size_t, std::uint64_t>;  // count, largest
  std::map<std::string, Sizes> lines;
  std::uint64_t largest = 0;
  for (const auto& [site, sizes] : sizes_of) {
    if (sizes.size() < kFewestSizes) continue;
    if (facts.lines.why(site->stack) != model::NoLine::kHasLine) continue;
    Sizes& of_line = lines[facts.lines.label(site->stack)];
    of_line = std::max(of_line, Sizes{sizes.size(), *sizes.rbegin()});
    largest = std::max(largest, *sizes.rbegin());
  }
  if (largest < kLargeRequest) return {};
  const auto most = by_value(lines);
  std::string text;
  for (const auto& [line, sizes] : std::span(most).first(std::min(kLinesNamed, most.size()))) {
    text += (text.empty() ? "Calls request different sizes: " : ", ") + line + " " +
            counted(sizes.first, "size") + " up to " + bytes_text(sizes.second);
  }
  return text + ".";
}

// What other streams had cached when a request raised reserved bytes. The allocator reuses a block
// only on the stream that it was allocated on.
struct OfOtherStreams {
  std::uint64_t bytes = 0;  // that empty_cache() would release
  std::string line;         // that requested most of their segments; empty if unknown
};

OfOtherStreams of_other_streams(const Facts& facts, const model::DeviceTrace& device,
                                std::uint32_t event) {
  const model::Trace& trace = facts.trace;
  const model::StreamId stream = trace.site(device, event).stream;
  const std::array point{std::int64_t{event}};
  std::vector<model::SegmentRange> segments = model::segments_at(trace, device, point)[0];
  std::erase_if(segments, [&](const model::SegmentRange& segment) {
    return segment.stream == stream || model::is_private(trace, segment.pool);
  });
  OfOtherStreams others;
  if (segments.empty()) return others;
  std::map<std::string, std::uint64_t> lines;
  for (std::uint32_t each = 0; each <= event; ++each) {
    const Action action = device.events.action[each];
    if (action != Action::kSegmentAlloc && action != Action::kSegmentMap) continue;
    const model::StackId stack = trace.site(device, each).stack;
    const std::uint64_t address = device.events.address[each];
    const bool is_of_others = std::ranges::any_of(segments, [&](const model::SegmentRange& range) {
      return range.address <= address && address < range.end();
    });
    if (is_of_others && facts.lines.why(stack) == model::NoLine::kHasLine) {
      lines[facts.lines.label(stack)] += device.events.size_bytes[each];
    }
  }
  others.line = largest(lines).first;
  const auto live = model::live_set(device, model::Liveness::kActive, point[0]);
  const auto layout = model::layout_of(trace, device, std::move(segments), live);
  others.bytes = analysis::find_pinning(trace, layout, facts.lines, {}).releasable_bytes;
  return others;
}

void add_steps_of_streams(const Facts& facts, const OfOtherStreams& others,
                          report::Finding& finding) {
  const std::string what = others.line.empty() ? "what these streams compute" : others.line;
  finding.evidence.push_back(
      bytes_text(others.bytes) + " of the cached blocks belong to other streams" +
      (others.line.empty() ? "" : ", most since " + others.line) +
      ". The allocator reuses a block only on the stream that it was allocated on, also with "
      "expandable_segments.");
  finding.steps = {
      step_up_to("Run " + what + " on the stream that needs memory later.", others.bytes),
      step_up_to("Call " + facts.names.module + ".empty_cache() after " + what + ".",
                 others.bytes)};
}

// What fragmentation and the cache cost at the peak of reserved bytes, and from which on that is
// substantial. Events and segments must agree (if they come from different points in time,
// baselines are negative), and no out-of-memory finding, which is more specific, may report the
// same memory.
struct Cost {
  std::uint64_t reserved = 0;
  std::uint64_t stranded = 0;   // 0: none, or unknown
  std::uint64_t threshold = 0;  // of them
  std::uint64_t cached = 0;     // never needed, if nothing pins them
  std::uint64_t least_cached = 0;
};

Cost cost_of(const DeviceFacts& device) {
  const report::DeviceReport& report = device.report;
  const report::ReservedPeak& peak = report.fragmentation.at_reserved_peak;
  Cost cost{.reserved = not_negative(report.reserved.peak_bytes)};
  const auto from = [&](std::uint64_t least, double share) {
    return std::max(least, static_cast<std::uint64_t>(share * static_cast<double>(cost.reserved)));
  };
  cost.least_cached = from(kMuchBytes, kMuchShare);
  cost.threshold = std::min(cost.least_cached, from(kLargeBytes, kLargeShare));
  const bool is_in_oom = std::ranges::any_of(report.oom_details, [](const report::OomDetails& oom) {
    return oom.cause == "fragmentation";
  });
  const bool is_judged =
      !is_in_oom && report.reserved.baseline_bytes >= 0 && report.live_totals().baseline_bytes >= 0;
  if (!peak.event || !is_judged) return cost;
  const std::uint64_t live = not_negative(report.live_totals().peak_bytes);
  const std::uint64_t excess = minus_or_zero(cost.reserved, live);
  cost.stranded = std::min(peak.stranded_bytes, excess);
  // At most what the allocator reserved during the recording.
  const std::uint64_t before = not_negative(report.reserved.baseline_bytes);
  cost.cached = std::min(excess, minus_or_zero(cost.reserved, before));
  return cost;
}

report::Finding cached_memory(const Facts& facts, const DeviceFacts& device, const Cost& cost) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  OfOtherStreams others =
      of_other_streams(facts, device.trace, static_cast<std::uint32_t>(*peak.event));
  others.bytes = std::min(others.bytes, cost.cached);
  const bool is_by_stream = is_at_least(others.bytes, kMostOf, cost.cached);
  const std::string sizes = is_by_stream ? std::string() : sizes_text(facts, device.trace);
  // A nearly empty device has enough memory for a larger batch and for other processes.
  const auto& bars = device.report.bars;
  const std::uint64_t total = bars.empty() ? 0 : bars.front().total_bytes;
  const bool is_roomy = total > 0 && !is_at_least(cost.reserved, kMostOf, total);
  report::Finding finding = {
      "stranded_memory",
      is_roomy ? report::FindingSeverity::kInfo : report::FindingSeverity::kWarning,
      bytes_text(cost.reserved) + " reserved on " + device.name + ", at most " +
          bytes_text(device.report.live_totals().peak_bytes) + " used: " + bytes_text(cost.cached) +
          " are cached blocks " +
          (is_by_stream     ? "of other streams"
           : !sizes.empty() ? "of earlier shapes"
                            : "that no later request fits"),
      {"Reserved memory reached its peak when " + peak.line + " requested " +
       bytes_text(peak.requested_bytes) + " (event " + base::format_count(*peak.event) +
       "). Live blocks pin " + bytes_text(peak.stranded_bytes) + " of what was free then."},
      {}};
  if (is_roomy) {
    finding.evidence.push_back("The device has " + bytes_text(total) +
                               ". The cache matters only if another process needs the memory: when "
                               "the device is full, the allocator releases it before it fails.");
  }
  if (is_by_stream) {
    add_steps_of_streams(facts, others, finding);
    return finding;
  }
  const std::uint64_t cached = cost.cached - others.bytes;
  add_expandable_segments(facts, cached, finding);
  if (!sizes.empty()) {
    finding.evidence.push_back(sizes);
    finding.steps.push_back(
        step_up_to("Pad the inputs to a few lengths, so that later steps reuse the cached blocks, "
                   "or run the largest shape first.",
                   cached));
  }
  finding.steps.push_back(step_up_to(
      "Call " + facts.names.module + ".empty_cache() before another process needs the memory.",
      cached));
  return finding;
}

}  // namespace

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
              std::uint64_t joinable, report::Finding& finding) {
  for (const report::PinningLine& line : lines.first(std::min(kNamed, lines.size()))) {
    finding.evidence.push_back(
        line.line + " pins " + bytes_text(line.pinned_cached_bytes) + " with " +
        counted(line.blocks, "block") + " of " + bytes_text(line.block_bytes) + " in all" +
        (line.alone_cached_bytes > 0 ? "; " + bytes_text(line.alone_cached_bytes) + " of it alone."
                                     : "."));
  }
  const std::uint64_t joined = std::min(saving, joinable);
  if (is_at_least(saving - joined, kMostOf, saving) && saving > 0) {
    finding.evidence.push_back(bytes_text(saving - joined) +
                               " of these pieces belong to other streams, pools or sizes of "
                               "segments, from which the request gets nothing, also with "
                               "expandable_segments.");
  }
  if (joined > 0) add_expandable_segments(facts, joined, finding);
  const bool is_known = !lines.empty() && is_named(lines.front().line);
  finding.steps.push_back(step_up_to("Allocate " +
                                         (is_known ? "what " + lines.front().line + " keeps"
                                                   : std::string("the long-lived blocks")) +
                                         " before the large temporaries, or copy it to the CPU.",
                                     saving));
}

std::optional<report::NearMiss> near_stranded(const DeviceFacts& device) {
  const Cost cost = cost_of(device);
  if (cost.stranded == 0 || cost.stranded >= cost.threshold) return std::nullopt;
  return report::NearMiss{device.report.device, "stranded_memory",
                          bytes_text(cost.stranded) + " of " + bytes_text(cost.reserved) +
                              " reserved were stranded (a finding at " +
                              bytes_text(cost.threshold) + ")",
                          static_cast<double>(cost.stranded) / static_cast<double>(cost.threshold)};
}

void stranded_memory(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  const Cost cost = cost_of(device);
  if (cost.stranded < cost.threshold) {
    if (cost.cached >= cost.least_cached) out.push_back(cached_memory(facts, device, cost));
    return;
  }
  out.push_back(
      {"stranded_memory",
       report::FindingSeverity::kWarning,
       bytes_text(peak.stranded_bytes) + " of the " + bytes_text(cost.reserved) + " reserved on " +
           device.name + " were stranded: free, but neither usable nor releasable",
       {peak.line + " requested " + bytes_text(peak.requested_bytes) + " (event " +
        base::format_count(*peak.event) + ") and got new memory from the driver. At most " +
        bytes_text(device.report.live_totals().peak_bytes) + " were ever live simultaneously."},
       {}});
  add_pins(facts, peak.pinning_lines, cost.stranded, peak.joinable_bytes, out.back());
}

}  // namespace plimsoll::findings
