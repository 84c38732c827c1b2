#include "cli/report_page.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/line/common_options.h"
#include "cli/line/exit_code.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/runs/output_file.h"
#include "comparison/ranks.h"
#include "engine/digest_input.h"
#include "engine/session_state.h"
#include "engine/source_lines.h"
#include "exporters/html/html_exporter.h"

namespace plimsoll::cli {
namespace {

struct Recording {
  Session session;
  Report report;
};

// Calls make(input) with the input of an exporter.
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

std::int64_t highest_peak(const report::Report& report) {
  std::int64_t most = 0;
  for (const report::DeviceReport& device : report.devices) {
    most = std::max(most, device.live_totals().peak_bytes);
  }
  return most;
}

// The page of several recordings. Only their reports are kept in memory; the recording that the
// page shows in full is read again.
Result<std::string> page_of_several(const std::vector<std::string>& paths, const Question& question,
                                    int& exit_code, const Arguments& arguments) {
  exporters::html::SeveralRecordings several;
  Question compared = question;  // ranks are compared at their peaks, even if one of them failed
  if (question.at == exporters::kPointOfPages) compared.at = "peak";
  std::int64_t place = 0;
  for (const std::string& path : paths) {
    auto recording = read(path, compared);
    const std::int64_t rank = place++;
    if (!recording) {
      if (recording.error().code == ErrorCode::kInterrupted) return recording.error();
      several.unreadable.push_back(recording.error().message);
      exit_code = std::max(exit_code, complain(recording.error()));
      continue;
    }
    report::Report report = recording->report.value();
    if (arguments.has("--ranks")) report.source.rank = rank;
    (report.source.rank ? several.ranks : several.others).push_back(report);
    if (is_to_fail_on(report.findings, arguments)) {
      exit_code = std::max(exit_code, kFindingToFailOn);
    }
  }
  several.comparison = comparison::compare_ranks(several.ranks);
  if (!several.comparison) {
    std::ranges::move(several.ranks, std::back_inserter(several.others));
    several.ranks.clear();
  } else if (is_to_fail_on(several.comparison->findings, arguments)) {
    exit_code = std::max(exit_code, kFindingToFailOn);
  }
  if (several.ranks.empty() && several.others.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no page was written: no file could be read");
  }
  const report::Report& first = several.comparison
                                    ? several.ranks[several.comparison->first_to_read]
                                    : *std::ranges::max_element(several.others, {}, highest_peak);
  PLIMSOLL_TRY_ASSIGN(const Recording shown, read(first.source.path, question));
  return page_of(shown, question, [&](const exporters::ExportInput& input) {
    return exporters::html::to_page_of_several(several, input);
  });
}

// The page of one recording, compared with an earlier recording or its digest.
Result<std::string> page_against(const Arguments& arguments, const Question& question,
                                 int& exit_code) {
  const std::string before_path = arguments.value("--against");
  const std::string after_path = arguments.values("FILE").front();
  // A digest has no chart.
  PLIMSOLL_TRY_ASSIGN(std::optional<report::Digest> before_digest,
                      engine::read_digest(before_path));
  std::optional<Recording> before;
  if (!before_digest) {
    PLIMSOLL_TRY_ASSIGN(before, read(before_path, question));
    PLIMSOLL_TRY_ASSIGN(before_digest, engine::digest_of(before->session, before_path, {}));
  }
  PLIMSOLL_TRY_ASSIGN(const Recording after, read(after_path, question));
  PLIMSOLL_TRY_ASSIGN(const report::Digest after_digest,
                      engine::digest_of(after.session, after_path, {}));
  PLIMSOLL_TRY_ASSIGN(const comparison::Diff value,
                      engine::compare_digests(*std::move(before_digest), after_digest));
  for (const auto* findings : {&value.findings, &after.report.value().findings}) {
    if (is_to_fail_on(*findings, arguments)) exit_code = kFindingToFailOn;
  }
  const auto with = [&](const exporters::ExportInput* chart) {
    return page_of(after, question, [&](const exporters::ExportInput& input) {
      return exporters::html::to_page_against({value, chart}, input);
    });
  };
  if (!before) return with(nullptr);
  return page_of(*before, question,
                 [&](const exporters::ExportInput& input) { return with(&input); });
}

Result<std::string> page(const Arguments& arguments, const Question& question, int& exit_code) {
  const std::vector<std::string> paths = arguments.values("FILE");
  if (paths.size() > 1) {
    return page_of_several(paths, question, exit_code, arguments);
  }
  if (arguments.has("--against")) return page_against(arguments, question, exit_code);
  PLIMSOLL_TRY_ASSIGN(const Recording recording, read(paths.front(), question));
  if (is_to_fail_on(recording.report.value().findings, arguments)) exit_code = kFindingToFailOn;
  return page_of(recording, question, exporters::html::to_page);
}

Status write(const Arguments& arguments, const Question& question, int& exit_code) {
  const std::string path = arguments.value("--html");
  const Existing existing = arguments.has("--force") ? Existing::kReplace : Existing::kRefuse;
  std::vector<std::string> inputs = arguments.values("FILE");
  if (arguments.has("--against")) inputs.push_back(arguments.value("--against"));
  PLIMSOLL_TRY(check_not_an_input(path, inputs, "--html"));
  PLIMSOLL_TRY_ASSIGN(OutputFile output, OutputFile::create(path, existing, "--html"));
  PLIMSOLL_TRY_ASSIGN(const std::string text, page(arguments, question, exit_code));
  output.write(text);
  if (output.reader_has_gone()) return {};
  PLIMSOLL_TRY(output.finish());
  if (path == "-") return {};
  return print(path + " (" + base::bytes_text(text.size()) + ")\n");
}

}  // namespace

int write_report_page(const Arguments& arguments, const Question& question) {
  int exit_code = kFine;
  const Status status = write(arguments, question, exit_code);
  return status ? exit_code : std::max(exit_code, complain(status.error()));
}

}  // namespace plimsoll::cli
