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

// The severity in capitals, and the next step with the bytes that it saves (empty without one).
std::string severity_mark(const report::Finding& finding);
std::string step_text(const report::Finding& finding);

// For each requested device with a section of its own, the sentence about last uses, below the
// verdict; with the device's name if there are several. Empty if uses are not recorded.
std::vector<std::string> last_use_texts(const report::Report& report, std::string_view asked_for);

// The sentences of a report without findings.
std::string no_findings_text(const report::Report& report, std::string_view asked_for);

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
