#include "cli/budget_runs.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/recorder_names.h"
#include "budgets/repeats.h"
#include "cli/child_process.h"
#include "cli/interruption.h"
#include "cli/progress_bar.h"
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

// A temporary folder. The destructor removes it with its files.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error).string() + "/plimsoll-XXXXXX";
    if (!error && ::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }  // empty if it could not be created

 private:
  std::string path_;
};

Error error_at(ErrorCode code, const BudgetFile& file, const Budget& budget,
               const std::string& sentence) {
  return make_error(
      code, file.path + ":" + std::to_string(budget.line) + ": " + budget.name + ": " + sentence);
}

bool needs_report(const Budget& budget) {
  return budget.allowed_findings ||
         std::ranges::any_of(budget.limits, [](const budgets::Limit& limit) {
           return limit.kind == budgets::LimitKind::kGrowth;
         });
}

// Makes paths relative to the folder, so that a baseline does not depend on where the project is.
// Places are shortened to the last parts of a path, so a place may begin with the last one or two
// names of the folder.
void shorten_paths(const std::string& folder, Measurement& in) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::canonical(folder, error);
  if (error || !full.has_filename()) return;
  const std::string last = full.filename().string() + "/";
  const std::string two = full.parent_path().filename().string() + "/" + last;
  for (report::DigestKey& key : in.digest.keys) {
    for (const std::string& prefix : {full.string() + "/", two, last}) {
      if (!key.place.starts_with(prefix)) continue;
      key.place.erase(0, prefix.size());
      break;
    }
  }
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
    shorten(finding.next_step);
  }
}

// Adds certain growth only. Skips models that are built in stages and the history of L-BFGS: their
// growth ends.
void add_growth(const report::Report& report, Measurement& to) {
  for (const report::DeviceReport& device : report.devices) {
    budgets::DeviceGrowth growth{.device = exporters::device_name(device)};
    for (const report::GrowthRow& row : report.tables.growth) {
      const bool counts = row.is_certain && !row.is_model_in_stages && !row.is_of_lbfgs;
      if (row.device == device.device && counts) growth.bytes_per_step += row.bytes_per_step;
    }
    to.growth.push_back(std::move(growth));
  }
  for (const report::PassRun& pass : report.passes) {
    if (pass.name == "growth") to.why_no_growth = pass.reason;
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
    question.analyses.insert(question.analyses.end(), {"growth", "findings"});
  PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question, progress));
  bar.clear();
  out.digest = report.value().digest;
  if (out.digest.points.empty()) {
    return make_error(ErrorCode::kUnsupported, path + ": no allocation to check");
  }
  out.findings = report.value().findings;
  if (needs_report(budget)) add_growth(report.value(), out);
  shorten_paths(folder, out);
  return out;
}

Result<Measurement> record_once(const BudgetFile& file, const Budget& budget) {
  const ScratchFolder scratch;
  if (scratch.path().empty()) {
    return error_at(ErrorCode::kInternal, file, budget,
                    std::string("cannot create a temporary folder: ") + std::strerror(errno));
  }
  const std::string trace = scratch.path() + "/run.plim";
  std::error_code error;
  // With a run log, the program does not print how to open the recording, which is temporary.
  std::vector<std::string> words = {"env",
                                    "PLIMSOLL_RUN_LOG=" + scratch.path() + "/log",
                                    std::filesystem::read_symlink("/proc/self/exe", error).string(),
                                    "run",
                                    "-o",
                                    trace};
  const auto command = budgets::split_words(budget.run);
  words.insert(words.end(), command->begin(), command->end());
  PLIMSOLL_TRY_ASSIGN(const int status, run_with_output_on_stderr(words, folder_of(file.path)));
  if (is_interrupted()) return make_error(ErrorCode::kInterrupted, "interrupted");
  if (status != 0) {
    return error_at(ErrorCode::kIo, file, budget,
                    "the run failed with exit status " + std::to_string(status) + ": " +
                        shell_line(*command) + "; its output is above");
  }
  if (!std::filesystem::exists(trace, error)) {
    return error_at(ErrorCode::kIo, file, budget, "the run recorded nothing: " + budget.run);
  }
  PLIMSOLL_TRY_ASSIGN(Measurement measurement, measure_file(trace, folder_of(file.path), budget));
  measurement.digest.source.path = budget.run;  // the trace file is temporary
  return measurement;
}

// The files that match the pattern, which is relative to `folder`, sorted by name.
std::vector<std::string> matching_files(const std::string& folder, const std::string& pattern) {
  std::string around;
  for (const char letter : folder) {
    if (std::strchr("*?[\\", letter) != nullptr) around += '\\';
    around += letter;
  }
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(in_folder(around, pattern).c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

Result<std::vector<Runs>> read_recordings(const BudgetFile& file, const Budget& budget) {
  const auto paths = matching_files(folder_of(file.path), budget.recording);
  if (paths.empty()) {
    return error_at(ErrorCode::kNotFound, file, budget,
                    "no file matches recording: " + budget.recording);
  }
  std::map<std::int64_t, std::pair<std::string, Runs>> ranks;
  for (const std::string& path : paths) {
    PLIMSOLL_TRY_ASSIGN(Measurement measurement, measure_file(path, folder_of(file.path), budget));
    const std::optional<std::int64_t> rank = measurement.digest.source.rank;
    if (!rank && paths.size() > 1) {
      return error_at(ErrorCode::kInvalidArgument, file, budget,
                      path + " does not name its rank, and recording: " + budget.recording +
                          " matches " + std::to_string(paths.size()) +
                          " files; several files are the ranks of one run");
    }
    auto& [first, runs] = ranks[rank.value_or(0)];
    if (!first.empty()) {
      return error_at(ErrorCode::kInvalidArgument, file, budget,
                      first + " and " + path + " are of the same rank, " + std::to_string(*rank));
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

std::string folder_of(const std::string& budget_file) {
  const std::string folder = std::filesystem::path(budget_file).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string in_folder(const std::string& folder, const std::string& path) {
  return folder == "." || path.starts_with('/') ? path : folder + "/" + path;
}

Result<std::vector<Runs>> measure(const BudgetFile& file, const Budget& budget,
                                  std::uint64_t repeats) {
  if (budget.run.empty()) return read_recordings(file, budget);
  Runs runs;
  std::vector<report::Digest> digests;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    PLIMSOLL_TRY_ASSIGN(Measurement measurement, record_once(file, budget));
    digests.push_back(measurement.digest);
    runs.each.push_back(std::move(measurement));
  }
  runs.digest = budgets::fold(digests);
  std::vector<Runs> all;
  all.push_back(std::move(runs));
  return all;
}

}  // namespace plimsoll::cli
