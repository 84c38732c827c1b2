// recording_incomplete: recorded events are missing from the file, so a peak or a leak may be
// missing too. The reader has counted them, or totals contradict each other; this rule turns that
// into a verdict.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

report::Finding incomplete(std::string title, std::string step) {
  report::Finding finding;
  finding.id = "recording_incomplete";
  finding.severity = report::FindingSeverity::kCritical;
  finding.title = std::move(title);
  finding.evidence.push_back(
      "The figures are those of the events in the file: peaks may be too low, and memory whose "
      "free is missing appears live.");
  finding.steps.push_back({std::move(step)});
  return finding;
}

// The kinds of events that the device lacks although the others imply them, as PyTorch names them.
std::vector<std::string> missing_kinds(const model::DeviceTrace& device) {
  using model::Action;
  constexpr std::array kKinds{Action::kAlloc, Action::kFreeRequested, Action::kFreeCompleted,
                              Action::kSegmentAlloc};
  const auto actions = device.events.action.span();
  const auto has = [&](Action action) {
    return std::ranges::find(actions, action) != actions.end();
  };
  std::vector<std::string> missing;
  for (const Action kind : kKinds) {
    const bool is_free = kind == Action::kFreeRequested || kind == Action::kFreeCompleted;
    const bool is_mapped = kind == Action::kSegmentAlloc && has(Action::kSegmentMap);
    if (has(kind) || is_mapped || (is_free && has(Action::kFree))) continue;
    missing.emplace_back(to_string(kind));
  }
  return missing;
}

report::Finding contradictory(const Facts& facts, const DeviceFacts& device) {
  report::Finding finding;
  finding.id = "recording_incomplete";
  finding.severity = report::FindingSeverity::kWarning;
  finding.title = "The peak on " + device.name + " is unknown: events are missing from the file";
  const std::uint64_t above = device.report.active_above_reserved_bytes;
  finding.evidence.push_back(above > 0 ? "According to its events, up to " + bytes_text(above) +
                                             " more would have been live than was reserved."
                                       : "At the end, its events leave up to " +
                                             bytes_text(device.report.disagreement_bytes()) +
                                             " more live than its segments contain.");
  const std::vector<std::string> missing = missing_kinds(device.trace);
  std::string kinds;
  for (const std::string& kind : missing) kinds += (kinds.empty() ? "" : ", ") + kind;
  if (!missing.empty()) finding.evidence.push_back("It has no events of the kind " + kinds + ".");
  finding.evidence.push_back("What was live at the end is known from its segments.");
  finding.steps = {
      {missing.empty()
           ? "Record again, and write the file with " + facts.names.module +
                 ".memory._dump_snapshot(path), which takes events and segments at the same time."
           : "Record again without skip_actions, or skip only one of free_requested and "
             "free_completed: the totals need the other events."}};
  return finding;
}

}  // namespace

Findings recording_incomplete(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    if (device.report.has_unknown_peak()) findings.push_back(contradictory(facts, device));
  }
  for (const report::DiagnosticReport& diagnostic : facts.report.source.diagnostics) {
    if (diagnostic.name == "sink_failed") {
      findings.push_back(
          incomplete("The recording ended early: " + diagnostic.example,
                     "Record to a place with more room (-o), or bound the file with max_events."));
    } else if (diagnostic.name == "file_truncated") {
      findings.push_back(incomplete("The end of the file is missing: " + diagnostic.example,
                                    "Copy the file again from where it was recorded."));
    } else if (diagnostic.name == "corrupt_block") {
      findings.push_back(
          incomplete("The file is damaged in " + counted(diagnostic.count, "place") + ": " +
                         diagnostic.example,
                     "Copy the file again from where it was recorded, or record again."));
    }
  }
  return findings;
}

}  // namespace plimsoll::findings
