#include "cli/report_page.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/common_options.h"
#include "cli/exit_code.h"
#include "cli/output_file.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "comparison/ranks.h"
#include "engine/session_state.h"
#include "engine/source_lines.h"
#include "exporters/html/html_exporter.h"

namespace plimsoll::cli {
namespace {

struct Recording {
  Session session;
  Report report;
};

// Calls make(input) with what an exporter gets.
template <typename Make>
std::string page_of(const Recording& recording, const Question& question, Make&& make) {
  const Session::State& state = recording.session.state();
  engine::SourceLines sources(state.trace, state.lines);
  return make(
      exporters::ExportInput{state.trace, recording.report.value(), state.lines, question.device,
                             [&](const std::string& line) { return sources.text_of(line); }});
}

Result<Recording> read(const std::string& path, const Question& question) {
  ProgressBar bar(path);
  const ProgressCallback progress = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(Session session, Session::open(path, {progress}));
  PLIMSOLL_TRY_ASSIGN(Report report, session.ask(question, progress));
  bar.clear();
  return Recording{std::move(session), std::move(report)};
}

// Of several files. Only the report of each is kept: the page shows one recording in full, which is
// read again.
Result<std::string> page_of_several(const std::vector<std::string>& paths, const Question& question,
                                    int& exit_code, const Arguments& arguments) {
  std::vector<report::Report> reports;
  for (const std::string& path : paths) {
    auto recording = read(path, question);
    if (!recording) {
      if (recording.error().code == ErrorCode::kInterrupted) return recording.error();
      exit_code = std::max(exit_code, complain(recording.error()));
      continue;
    }
    reports.push_back(recording->report.value());
    if (is_to_fail_on(reports.back().findings, arguments)) {
      exit_code = std::max(exit_code, kFindingToFailOn);
    }
  }
  if (reports.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no page was written: no file could be read");
  }
  const auto comparison = comparison::compare_ranks(reports);
  if (comparison && is_to_fail_on(comparison->findings, arguments)) {
    exit_code = std::max(exit_code, kFindingToFailOn);
  }
  const auto fullest = [&] {
    const auto peak_of = [](const report::Report& report) {
      std::int64_t most = 0;
      for (const report::DeviceReport& device : report.devices) {
        most = std::max(most, device.held().peak_bytes);
      }
      return most;
    };
    return static_cast<std::size_t>(std::ranges::max_element(reports, {}, peak_of) -
                                    reports.begin());
  };
  const std::size_t first = comparison ? comparison->first_to_read : fullest();
  PLIMSOLL_TRY_ASSIGN(const Recording shown, read(reports[first].source.path, question));
  return page_of(shown, question, [&](const exporters::ExportInput& input) {
    return exporters::html::to_page_of_several(comparison ? &*comparison : nullptr, reports, input);
  });
}

Result<std::string> page(const Arguments& arguments, const Question& question, int& exit_code) {
  const std::vector<std::string> paths = arguments.values("FILE");
  if (paths.size() > 1) {
    return page_of_several(paths, question, exit_code, arguments);
  }
  PLIMSOLL_TRY_ASSIGN(const Recording recording, read(paths.front(), question));
  if (is_to_fail_on(recording.report.value().findings, arguments)) exit_code = kFindingToFailOn;
  return page_of(recording, question, exporters::html::to_page);
}

Status write(const Arguments& arguments, const Question& question, int& exit_code) {
  const std::string path = arguments.value("--html");
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, existing));
  PLIMSOLL_TRY_ASSIGN(const std::string text, page(arguments, question, exit_code));
  output.write(text);
  if (output.reader_has_gone()) return {};
  PLIMSOLL_TRY(output.finish());
  if (path == "-") return {};
  return print(path + " (" + base::format_bytes(static_cast<std::int64_t>(text.size())) + ")\n");
}

}  // namespace

int write_report_page(const Arguments& arguments, const Question& question) {
  int exit_code = kFine;
  const Status status = write(arguments, question, exit_code);
  return status ? exit_code : std::max(exit_code, complain(status.error()));
}

}  // namespace plimsoll::cli
