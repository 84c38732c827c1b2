#include "findings/allocator/cached_memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/pinning.h"
#include "base/units.h"
#include "findings/text.h"
#include "model/live_set.h"
#include "model/segment_release.h"

namespace plimsoll::findings {
namespace {

// Healthy training reserves up to a sixth more than its peak of live bytes, because of rounding and
// because some blocks of one phase do not suit another. The threshold is a quarter if that is as
// much as a larger batch needs, else half.
constexpr std::uint64_t kMuchBytes = std::uint64_t{1} << 30;
constexpr double kMuchShare = 0.25;
constexpr std::uint64_t kSomeBytes = std::uint64_t{256} << 20;
constexpr double kSomeShare = 0.5;
// The allocator caches smaller requests in blocks of 2 MiB and 20 MiB, which serve all their sizes.
constexpr std::uint64_t kLargeRequest = std::uint64_t{10} << 20;
// One call that requests this many sizes has inputs of different shapes.
constexpr std::size_t kFewestSizes = 5;
constexpr std::size_t kLinesNamed = 4;
// With less, blocks of the same stream in unsuitable sizes cost more.
constexpr double kShareOfStreams = 0.5;
// From this share of the device on, the cache takes memory that a larger batch or another process
// could use. A nearly empty device has enough of both.
constexpr double kShareOfDevice = 0.5;

std::uint64_t not_negative(std::int64_t bytes) {
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

// Cached memory that was never needed: at most the bytes that the allocator reserved during the
// recording.
std::uint64_t cached_in_vain(const report::DeviceReport& device) {
  const std::uint64_t before = not_negative(device.reserved.baseline_bytes);
  const std::uint64_t reserved = not_negative(device.reserved.peak_bytes);
  return std::min(excess_bytes(device), reserved - std::min(reserved, before));
}

bool is_much(std::uint64_t bytes, std::uint64_t reserved) {
  return (bytes >= kMuchBytes && is_at_least(bytes, kMuchShare, reserved)) ||
         (bytes >= kSomeBytes && is_at_least(bytes, kSomeShare, reserved));
}

// A line whose calls request different sizes.
struct Varied {
  std::string line;
  std::size_t sizes = 0;
  std::uint64_t largest = 0;
};

// Lines with the most sizes of one call (stack, layer and operator) first.
std::vector<Varied> varied_lines(const Facts& facts, const model::DeviceTrace& device) {
  using Call = std::array<std::uint32_t, 3>;
  std::map<Call, std::set<std::uint64_t>> calls;
  for (std::size_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] != model::Action::kAlloc) continue;
    const std::uint64_t size = device.events.size_bytes[event];
    const model::Site& site = facts.trace.site(device, event);
    calls[{site.stack.value, site.layer.value, site.op.value}].insert(size);
  }
  std::map<std::string, Varied> lines;
  for (const auto& [call, sizes] : calls) {
    const model::StackId stack{call[0]};
    if (sizes.size() < kFewestSizes) continue;
    if (facts.lines.why(stack) != model::NoLine::kHasLine) continue;
    Varied& varied = lines[facts.lines.label(stack)];
    varied.sizes = std::max(varied.sizes, sizes.size());
    varied.largest = std::max(varied.largest, *sizes.rbegin());
  }
  std::vector<Varied> sorted;
  for (auto& [line, varied] : lines) {
    varied.line = line;
    sorted.push_back(std::move(varied));
  }
  std::ranges::stable_sort(sorted, [](const Varied& a, const Varied& b) {
    return a.sizes != b.sizes ? a.sizes > b.sizes : a.largest > b.largest;
  });
  return sorted;
}

std::string sizes_text(const std::vector<Varied>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kLinesNamed, lines.size()); ++i) {
    text += (i == 0 ? "" : ", ") + lines[i].line + " " + counted(lines[i].sizes, "size") +
            " up to " + bytes_text(lines[i].largest);
  }
  return text;
}

// The capacity of the device; 0 if it is unknown.
std::uint64_t capacity(const report::DeviceReport& device) {
  return device.bars.empty() ? 0 : device.bars.front().total_bytes;
}

// What other streams had cached when a request raised reserved bytes. The allocator reuses a block
// only on the stream that it was allocated on.
struct OfOtherStreams {
  std::uint64_t bytes = 0;  // that empty_cache() would release
  std::string line;         // that requested most of their segments; empty if unknown
  bool is_over = true;      // nothing is allocated on these streams after that request
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
  for (std::uint32_t each = 0; each < device.events.size(); ++each) {
    const model::Action action = device.events.action[each];
    const model::Site& site = trace.site(device, each);
    if (action == model::Action::kAlloc && each > event && site.stream != stream) {
      others.is_over = false;
    }
    const bool is_segment =
        action == model::Action::kSegmentAlloc || action == model::Action::kSegmentMap;
    if (!is_segment || each > event || facts.lines.why(site.stack) != model::NoLine::kHasLine) {
      continue;
    }
    const std::uint64_t address = device.events.address[each];
    const bool is_of_others = std::ranges::any_of(segments, [&](const model::SegmentRange& range) {
      return range.address <= address && address < range.end();
    });
    if (is_of_others) lines[facts.lines.label(site.stack)] += device.events.size_bytes[each];
  }
  const auto most =
      std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; });
  if (most != lines.end()) others.line = most->first;
  const auto live = model::live_set(device, model::Liveness::kActive, point[0]);
  const auto layout = model::layout_of(trace, device, std::move(segments), live);
  others.bytes = analysis::find_pinning(trace, layout, facts.lines, {}).releasable_bytes;
  return others;
}

void add_steps_of_streams(const Facts& facts, const OfOtherStreams& others, std::uint64_t cached,
                          report::Finding& finding) {
  const std::string what = others.line.empty() ? "what these streams compute" : others.line;
  finding.evidence.push_back(
      bytes_text(others.bytes) + " of the cached blocks belong to other streams" +
      (others.line.empty() ? "" : ", most since " + others.line) +
      ". The allocator reuses a block only on the stream that it was allocated on, also with "
      "expandable_segments.");
  finding.steps = {
      step_up_to("Run " + what + " on the stream that needs memory later.", cached),
      step_up_to("Call " + facts.names.module + ".empty_cache() " +
                     (others.is_over ? "once after " : "each time after ") + what + ".",
                 cached)};
}

// `cached`: the bytes that no live tensor needed.
void add_steps(const Facts& facts, bool is_by_shape, std::uint64_t cached,
               report::Finding& finding) {
  const bool is_expandable = facts.conf.expandable_segments;
  if (is_expandable) {
    finding.evidence.emplace_back("expandable_segments is on already.");
  } else {
    finding.steps.push_back(step_up_to(
        facts.names.set_expandable_segments() +
            " before the process starts: adjacent free blocks can then serve a larger request.",
        cached));
  }
  if (is_by_shape) {
    finding.steps.push_back(
        step_up_to("Pad the inputs to a few lengths, so that later steps reuse the cached blocks, "
                   "or run the largest shape first.",
                   cached));
  }
  if (!is_expandable) {
    finding.steps.push_back(
        step_up_to("Set garbage_collection_threshold:0.8 in " + facts.names.alloc_conf +
                       ": it releases blocks that have been idle for a long time; "
                       "expandable_segments ignores it.",
                   cached));
  } else if (!is_by_shape) {
    finding.steps.push_back(step_up_to(
        "Call " + facts.names.module + ".empty_cache() before another process needs the memory.",
        cached));
  }
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
  const std::int64_t reserved = device.reserved.peak_bytes;
  const std::int64_t live = device.live_totals().peak_bytes;
  if (reserved <= live) return 0;
  return static_cast<std::uint64_t>(reserved) - static_cast<std::uint64_t>(live);
}

std::optional<report::Finding> cached_memory(const Facts& facts, const DeviceFacts& device) {
  const report::ReservedPeak& peak = device.report.fragmentation.at_reserved_peak;
  if (!peak.event || !is_reserved_judged(device)) return std::nullopt;
  const std::uint64_t reserved = not_negative(device.report.reserved.peak_bytes);
  const std::uint64_t cached = cached_in_vain(device.report);
  if (!is_much(cached, reserved)) return std::nullopt;
  const OfOtherStreams others =
      of_other_streams(facts, device.trace, static_cast<std::uint32_t>(*peak.event));
  const std::uint64_t of_others = std::min(others.bytes, cached);
  const bool is_by_stream = is_at_least(of_others, kShareOfStreams, cached);
  const std::vector<Varied> lines = varied_lines(facts, device.trace);
  const bool is_by_shape = !is_by_stream && std::ranges::any_of(lines, [](const Varied& line) {
    return line.largest >= kLargeRequest;
  });
  report::Finding finding;
  finding.id = "stranded_memory";
  const std::uint64_t total = capacity(device.report);
  const bool is_roomy = total > 0 && !is_at_least(reserved, kShareOfDevice, total);
  finding.severity = is_roomy ? report::FindingSeverity::kInfo : report::FindingSeverity::kWarning;
  finding.title = bytes_text(reserved) + " reserved on " + device.name + ", at most " +
                  bytes_text(device.report.live_totals().peak_bytes) +
                  " used: " + bytes_text(cached) + " are cached blocks " +
                  (is_by_stream  ? "of other streams"
                   : is_by_shape ? "of earlier shapes"
                                 : "that no later request fits");
  finding.evidence.push_back("Reserved memory reached its peak when " + peak.line + " requested " +
                             bytes_text(peak.requested_bytes) + " (event " +
                             base::format_count(*peak.event) + "). Live blocks pin " +
                             bytes_text(peak.stranded_bytes) +
                             " of what was free then; the rest is cached" +
                             (is_by_stream ? "." : " and reusable, in blocks of other sizes."));
  if (is_by_shape) {
    finding.evidence.push_back("Calls that request different sizes: " + sizes_text(lines) + ".");
  }
  if (total > 0) {
    finding.evidence.push_back(
        "Reserved memory is " +
        base::format_percent(static_cast<double>(reserved) / static_cast<double>(total)) +
        " of the device's " + bytes_text(total) +
        (is_roomy ? ". It matters only if another process needs the memory: when the device is "
                    "full, the allocator releases its cache before it fails."
                  : "."));
  }
  if (is_by_stream) {
    add_steps_of_streams(facts, others, of_others, finding);
  } else {
    add_steps(facts, is_by_shape, cached - of_others, finding);
  }
  return finding;
}

}  // namespace plimsoll::findings
