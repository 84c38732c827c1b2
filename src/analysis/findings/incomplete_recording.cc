// recording_incomplete: recorded events are missing from the file, so a peak or a leak may be
// missing too. The reader has counted them; this rule turns the count into a verdict.
#include <string>
#include <string_view>
#include <utility>

#include "analysis/findings/rules.h"
#include "analysis/findings/text.h"

namespace plimsoll::analysis::findings {
namespace {

report::Finding incomplete(std::string title, std::string next_step) {
  report::Finding finding;
  finding.id = "recording_incomplete";
  finding.severity = report::FindingSeverity::kCritical;
  finding.title = std::move(title);
  finding.evidence.push_back(
      "The figures are those of the events in the file: peaks may be too low, and memory whose "
      "free is missing appears live.");
  finding.next_step = std::move(next_step);
  return finding;
}

}  // namespace

Findings recording_incomplete(const Facts& facts) {
  Findings findings;
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

}  // namespace plimsoll::analysis::findings
