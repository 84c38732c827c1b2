// recording_incomplete: recorded events are missing from the file, so a peak or a leak may be
// missing too. The reader has counted them, or totals contradict each other; this rule turns that
// into a verdict.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// The kinds of events that the device lacks although the others imply them, as PyTorch names them.
std::string missing_kinds(const model::DeviceTrace& device) {
  using enum model::Action;
  const auto actions = device.events.action.span();
  const auto has = [&](model::Action action) {
    return std::ranges::find(actions, action) != actions.end();
  };
  std::string missing;
  for (const model::Action kind : {kAlloc, kFreeRequested, kFreeCompleted, kSegmentAlloc}) {
    const bool is_free = kind == kFreeRequested || kind == kFreeCompleted;
    const bool is_mapped = kind == kSegmentAlloc && has(kSegmentMap);
    if (has(kind) || is_mapped || (is_free && has(kFree))) continue;
    missing += (missing.empty() ? "" : ", ") + std::string(to_string(kind));
  }
  return missing;
}

report::Finding contradictory(const Facts& facts, const DeviceFacts& device) {
  const std::uint64_t above = device.report.active_above_reserved_bytes;
  report::Finding finding = {
      "recording_incomplete",
      report::FindingSeverity::kWarning,
      "The peak on " + device.name + " is unknown: events are missing from the file",
      {above > 0 ? "According to its events, up to " + bytes_text(above) +
                       " more would have been live than was reserved."
                 : "At the end, its events leave up to " +
                       bytes_text(device.report.disagreement_bytes()) +
                       " more live than its segments contain."},
      {{"Record again, and write the file with " + facts.names.module +
        ".memory._dump_snapshot(path), which takes events and segments at the same time."}}};
  const std::string missing = missing_kinds(device.trace);
  if (!missing.empty()) {
    finding.evidence.push_back("It has no events of the kind " + missing + ".");
    finding.steps = {
        {"Record again without skip_actions, or skip only one of free_requested and "
         "free_completed: the totals need the other events."}};
  }
  finding.evidence.push_back("What was live at the end is known from its segments.");
  return finding;
}

struct Loss {
  std::string_view diagnostic;
  const char* title;
  const char* step;
};
constexpr auto kLosses = std::to_array<Loss>({
    {"sink_failed", "The recording ended early",
     "Record to a place with more room (-o), or bound the file with max_events."},
    {"file_truncated", "The end of the file is missing",
     "Copy the file again from where it was recorded."},
    {"corrupt_block", "The file is damaged",
     "Copy the file again from where it was recorded, or record again."},
});

}  // namespace

Findings recording_incomplete(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (device.report.has_unknown_peak()) findings.push_back(contradictory(facts, device));
  }
  for (const report::DiagnosticReport& diagnostic : facts.report.source.diagnostics) {
    const auto* const loss = std::ranges::find(kLosses, diagnostic.name, &Loss::diagnostic);
    if (loss == kLosses.end()) continue;
    const bool is_counted = diagnostic.name == "corrupt_block";
    findings.push_back(
        {"recording_incomplete",
         report::FindingSeverity::kCritical,
         loss->title + (is_counted ? " in " + counted(diagnostic.count, "place") : std::string()) +
             ": " + diagnostic.example,
         {"The figures are those of the events in the file: peaks may be too low, and memory whose "
          "free is missing appears live."},
         {{loss->step}}});
  }
  return findings;
}

}  // namespace plimsoll::findings
