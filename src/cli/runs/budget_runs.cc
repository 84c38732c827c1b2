#include "cli/runs/budget_runs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/recorder_names.h"
#include "budgets/repeats.h"
#include "cli/line/progress_bar.h"
#include "cli/line/terminal.h"
#include "cli/runs/budget_files.h"
#include "cli/runs/child_process.h"
#include "cli/runs/recorded_run.h"
#include "cli/runs/scratch_folder.h"
#include "engine/digest_input.h"
#include "exporters/labels.h"
#include "plimsoll/session.h"
#include "report/report.h"

namespace plimsoll::cli {
namespace {

using budgets::Budget;
using budgets::BudgetFile;
using budgets::Measurement;
using budgets::Runs;

constexpr std::size_t kAllRows = 10'000;

Error error_at(ErrorCode code, const BudgetFile& file, const Budget& budget,
               const std::string& sentence) {
  return make_error(
      code, file.path + ":" + std::to_string(budget.line) + ": " + budget.name + ": " + sentence);
}

bool needs_report(const Budget& budget) {
  return budget.allowed_findings ||
         std::ranges::any_of(budget.limits, [](const budgets::Limit& limit) {
           return limit.kind == budgets::LimitKind::kGrowth ||
                  limit.kind == budgets::LimitKind::kUnusedAtPeak;
         });
}

// Makes paths relative to the folder, so that a baseline does not depend on where the project is.
// Places are shortened to the last parts of a path, so a place may begin with the last one or two
// names of the folder.
void shorten_paths(const std::string& folder, Measurement& in) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::canonical(folder, error);
  if (error || !full.has_filename()) return;
  shorten_places(full.string(), in.digest);
  const std::string two =
      full.parent_path().filename().string() + "/" + full.filename().string() + "/";
  const auto shorten = [&](std::string& text) {
    for (const std::string& prefix : {full.string() + "/", two}) {
      for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
        text.erase(at, prefix.size());
      }
    }
  };
  for (Finding& finding : in.findings) {
    shorten(finding.title);
    std::ranges::for_each(finding.evidence, shorten);
    for (FindingStep& step : finding.steps) shorten(step.text);
  }
}

// Adds certain growth only. Skips models that are built in stages and the history of L-BFGS: their
// growth ends.
void add_growth(const report::Report& report, Measurement& to) {
  for (const report::DeviceReport& device : report.devices) {
    budgets::DeviceGrowth growth{.device = exporters::device_name(device)};
    double most = 0;
    for (const report::GrowthRow& row : report.tables.growth) {
      const bool counts = row.is_certain && !row.is_model_in_stages && !row.is_of_lbfgs;
      if (row.device != device.device || !counts) continue;
      growth.bytes_per_step += row.bytes_per_step;
      if (row.bytes_per_step > most) growth.fastest = row.key;
      most = std::max(most, row.bytes_per_step);
    }
    to.growth.push_back(std::move(growth));
  }
  for (const report::PassRun& pass : report.passes) {
    if (pass.name == "growth") to.why_no_growth = pass.reason;
  }
}

void add_unused(const report::Report& report, Measurement& to) {
  for (const report::DeviceReport& device : report.devices) {
    if (!device.last_use) continue;
    const auto& rows = device.last_use->rows;
    to.unused.push_back({.device = exporters::device_name(device),
                         .bytes = device.last_use->unused_bytes,
                         .peak_bytes = device.last_use->live_bytes,
                         .unknown_bytes = device.last_use->unknown_bytes,
                         .is_sampled = device.last_use->is_sampled,
                         .text = device.last_use->text,
                         .line = rows.empty() ? std::string() : rows.front().line});
  }
}

// Totals of an incomplete recording may be anything, so they are neither judged nor kept.
Status check_complete(const BudgetFile& file, const Budget& budget, const std::string& name,
                      const Measurement& measurement) {
  const auto& missing = measurement.digest.source.incomplete;
  if (!missing) return {};
  return error_at(ErrorCode::kCorrupt, file, budget,
                  name + " is incomplete, so it is not judged: " + *missing);
}

std::uint64_t unrecorded_children(const report::Report& report) {
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    if (each.name == "children_unrecorded") return each.count;
  }
  return 0;
}

// The recordings of forked children are next to that of the program: PATH.PID.
void add_recorded_children(const std::string& trace, budgets::ForkedChildren& children) {
  const std::filesystem::path path(trace);
  const std::string prefix = path.filename().string() + ".";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) ||
        name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) {
      continue;
    }
    const auto digest = engine::digest_of(entry.path().string());
    if (!digest) continue;  // it allocated nothing
    ++children.recorded;
    if (digest->source.incomplete) children.is_incomplete = true;
    for (const report::DigestPoint& point : digest->points) {
      if (point.name == "peak") children.peak_bytes = std::max(children.peak_bytes, point.bytes);
    }
  }
}

Result<Measurement> measure_file(const std::string& path, const std::string& folder,
                                 const Budget& budget) {
  Measurement out;
  PLIMSOLL_TRY_ASSIGN(auto digest, engine::read_digest(path));
  if (digest) {
    out.digest = std::move(*digest);
    out.is_only_digest = true;
    return out;
  }
  ProgressBar bar(path);
  const ProgressCallback progress = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    return bar.advance(stage, done, total);
  };
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
  Question question;
  question.analyses = {"digest"};
  question.top = kAllRows;
  if (needs_report(budget))
    question.analyses.insert(question.analyses.end(), {"growth", "uses", "findings"});
  PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question, progress));
  bar.clear();
  out.digest = report.value().digest;
  if (out.digest.points.empty()) {
    return make_error(ErrorCode::kUnsupported, path + ": no allocation to check");
  }
  out.findings = report.value().findings;
  out.children.unrecorded = unrecorded_children(report.value());
  if (needs_report(budget)) {
    add_growth(report.value(), out);
    add_unused(report.value(), out);
  }
  shorten_paths(folder, out);
  return out;
}

Result<Measurement> record_once(const BudgetFile& file, const Budget& budget,
                                const KeepRecordings& keep) {
  PLIMSOLL_TRY_ASSIGN(const ScratchFolder scratch, ScratchFolder::make());
  const std::string trace = scratch.path() + "/run.plim";
  const auto command = budgets::split_words(budget.run);
  PLIMSOLL_TRY_ASSIGN(const int status, record_run(*command, folder_of(file.path), trace));
  if (status != 0) {
    return error_at(ErrorCode::kIo, file, budget,
                    "the run failed with exit status " + std::to_string(status) + ": " +
                        shell_line(*command) + "; its output is above");
  }
  std::error_code error;
  if (!std::filesystem::exists(trace, error)) {
    return error_at(ErrorCode::kIo, file, budget, "the run recorded nothing: " + budget.run);
  }
  PLIMSOLL_TRY_ASSIGN(Measurement measurement, measure_file(trace, folder_of(file.path), budget));
  PLIMSOLL_TRY(check_complete(file, budget, "the recording of " + budget.run, measurement));
  PLIMSOLL_TRY(keep({trace}));
  add_recorded_children(trace, measurement.children);
  measurement.digest.source.path = budget.run;  // the trace file is temporary
  return measurement;
}

Result<std::vector<Runs>> read_recordings(const BudgetFile& file, const Budget& budget) {
  const auto paths = matching_files(file, budget.recording);
  if (paths.empty()) {
    return error_at(ErrorCode::kNotFound, file, budget,
                    "no file matches recording: " + budget.recording);
  }
  std::map<std::int64_t, std::pair<std::string, Runs>> ranks;
  for (const std::string& path : paths) {
    PLIMSOLL_TRY_ASSIGN(Measurement measurement, measure_file(path, folder_of(file.path), budget));
    PLIMSOLL_TRY(check_complete(file, budget, path, measurement));
    const std::optional<std::int64_t> rank = measurement.digest.source.rank;
    if (!rank && paths.size() > 1) {
      return error_at(ErrorCode::kInvalidArgument, file, budget,
                      path + " does not name its rank, and recording: " + budget.recording +
                          " matches " + std::to_string(paths.size()) +
                          " files; several files are the ranks of one run");
    }
    auto& [first, runs] = ranks[rank.value_or(0)];
    if (!first.empty()) {
      std::string both = first;
      both += " and ";
      both += path;
      both += " are of the same rank, ";
      both += std::to_string(*rank);
      return error_at(ErrorCode::kInvalidArgument, file, budget, both);
    }
    first = path;
    runs.digest = measurement.digest;
    runs.each.push_back(std::move(measurement));
  }
  std::vector<Runs> all;
  for (auto& [rank, each] : ranks) all.push_back(std::move(each.second));
  return all;
}

}  // namespace

Result<std::vector<Runs>> measure(const BudgetFile& file, const Budget& budget,
                                  std::uint64_t repeats, const KeepRecordings& keep) {
  if (budget.run.empty()) {
    PLIMSOLL_TRY_ASSIGN(std::vector<Runs> ranks, read_recordings(file, budget));
    PLIMSOLL_TRY(keep(matching_files(file, budget.recording)));
    return ranks;
  }
  Runs runs;
  std::vector<report::Digest> digests;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    const std::string which =
        repeats == 1 ? "" : " (" + std::to_string(i + 1) + " of " + std::to_string(repeats) + ")";
    complain("recording " + budget.name + which + ": " + budget.run);
    PLIMSOLL_TRY_ASSIGN(Measurement measurement, record_once(file, budget, keep));
    digests.push_back(measurement.digest);
    runs.each.push_back(std::move(measurement));
  }
  runs.digest = budgets::fold(digests);
  std::vector<Runs> all;
  all.push_back(std::move(runs));
  return all;
}

}  // namespace plimsoll::cli
