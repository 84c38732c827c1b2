// Texts at the start and end of a report, apart from its findings: the sentences without findings,
// notes on the input, unanswered questions. Text from the file is made printable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace plimsoll::exporters {

// The requested device (is_asked_for) with the highest peak; null if none has memory.
const report::DeviceReport* fullest(const report::Report& report, std::string_view asked_for);

// The severity in capitals.
std::string severity_mark(const report::Finding& finding);

// The finding's steps with their savings, printable; the first is recommended.
std::vector<std::string> step_texts(const report::Finding& finding);

// For each requested device with a section of its own, the sentence about last uses, below the
// verdict; with the device's name if there are several. Empty if uses are not recorded.
std::vector<std::string> last_use_texts(const report::Report& report, std::string_view asked_for);

// Whether operators use everything at the peak of each requested device with a section of its own
// again, and all findings, if any, are facts.
bool is_healthy(const report::Report& report, std::string_view asked_for);

// A report without findings, or a healthy one: a sentence, and more sentences about the peak.
struct NoFindings {
  std::string title;
  std::string evidence;  // may be empty

  std::string text() const { return evidence.empty() ? title : title + " " + evidence; }
};
NoFindings no_findings(const report::Report& report, std::string_view asked_for);

struct InputNote {
  bool is_severe = false;  // data are missing or wrong
  std::string text;
};
std::vector<InputNote> notes_on_input(const report::Report& report);

// Skipped passes, and questions that passes could not answer, grouped by reason.
struct Unanswered {
  std::string names;
  std::string reason;
};
std::vector<Unanswered> unanswered(const report::Report& report);

// "torch 2.13.0", the host and the start of the recording: as far as the file states them.
std::vector<std::string> program_facts(const report::Source& source);

}  // namespace plimsoll::exporters
