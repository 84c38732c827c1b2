#include "findings/allocator/cached_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/pinning.h"
#include "base/units.h"
#include "findings/allocator/pinning.h"
#include "findings/text.h"
#include "model/live_set.h"
#include "model/segment_release.h"

namespace plimsoll::findings {
namespace {

using model::Action;

// The allocator caches smaller requests in blocks of 2 MiB and 20 MiB, which serve all their sizes.
constexpr std::uint64_t kLargeRequest = std::uint64_t{10} << 20;
// One call that requests this many sizes has inputs of different shapes.
constexpr std::size_t kFewestSizes = 5;
constexpr std::size_t kLinesNamed = 4;
// With less of other streams, or of the device, something else matters more.
constexpr double kMostOf = 0.5;

// Cached memory that was never needed: at most the bytes that the allocator reserved during the
// recording.
std::uint64_t cached_in_vain(const report::DeviceReport& device) {
  const std::uint64_t before = not_negative(device.reserved.baseline_bytes);
  const std::uint64_t reserved = not_negative(device.reserved.peak_bytes);
  return std::min(excess_bytes(device), reserved - std::min(reserved, before));
}

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
  std::vector<std::pair<Sizes, std::string>> most;
  for (const auto& [line, sizes] : lines) most.emplace_back(sizes, line);
  std::ranges::sort(most, std::ranges::greater{});
  std::string text;
  for (const auto& [sizes, line] : std::span(most).first(std::min(kLinesNamed, most.size()))) {
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
  const auto most =
      std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  if (most != lines.end()) others.line = most->first;
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

void add_steps(const Facts& facts, const std::string& sizes, std::uint64_t cached,
               report::Finding& finding) {
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
}

}  // namespace

bool is_reserved_judged(const DeviceFacts& device) {
  const bool is_in_oom = std::ranges::any_of(
      device.report.oom_details,
      [](const report::OomDetails& oom) { return oom.cause == "fragmentation"; });
  return !is_in_oom && device.report.reserved.baseline_bytes >= 0 &&
         device.report.live_totals().baseline_bytes >= 0;
}

std::uint64_t excess_bytes(const report::DeviceReport& device) {
  const std::uint64_t live = not_negative(device.live_totals().peak_bytes);
  const std::uint64_t reserved = not_negative(device.reserved.peak_bytes);
  return reserved - std::min(reserved, live);
}

std::optional<report::Finding> cached_memory(const Facts& facts, const DeviceFacts& device,
                                             std::uint64_t least) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  if (!peak.event || !is_reserved_judged(device)) return std::nullopt;
  const std::uint64_t reserved = not_negative(device.report.reserved.peak_bytes);
  const std::uint64_t cached = cached_in_vain(device.report);
  if (cached < least) return std::nullopt;
  OfOtherStreams others =
      of_other_streams(facts, device.trace, static_cast<std::uint32_t>(*peak.event));
  others.bytes = std::min(others.bytes, cached);
  const bool is_by_stream = is_at_least(others.bytes, kMostOf, cached);
  const std::string sizes = is_by_stream ? std::string() : sizes_text(facts, device.trace);
  // A nearly empty device has enough memory for a larger batch and for other processes.
  const std::uint64_t total =
      device.report.bars.empty() ? 0 : device.report.bars.front().total_bytes;
  const bool is_roomy = total > 0 && !is_at_least(reserved, kMostOf, total);
  report::Finding finding;
  finding.id = "stranded_memory";
  finding.severity = is_roomy ? report::FindingSeverity::kInfo : report::FindingSeverity::kWarning;
  finding.title = bytes_text(reserved) + " reserved on " + device.name + ", at most " +
                  bytes_text(device.report.live_totals().peak_bytes) +
                  " used: " + bytes_text(cached) + " are cached blocks " +
                  (is_by_stream     ? "of other streams"
                   : !sizes.empty() ? "of earlier shapes"
                                    : "that no later request fits");
  finding.evidence.push_back("Reserved memory reached its peak when " + peak.line + " requested " +
                             bytes_text(peak.requested_bytes) + " (event " +
                             base::format_count(*peak.event) + "). Live blocks pin " +
                             bytes_text(peak.stranded_bytes) + " of what was free then.");
  if (is_roomy) {
    finding.evidence.push_back("The device has " + bytes_text(total) +
                               ". The cache matters only if another process needs the memory: when "
                               "the device is full, the allocator releases it before it fails.");
  }
  if (is_by_stream) {
    add_steps_of_streams(facts, others, finding);
  } else {
    add_steps(facts, sizes, cached - others.bytes, finding);
  }
  return finding;
}

}  // namespace plimsoll::findings
