// Compares several runs, or the ranks of one: their figures, their differences, and outliers.
//
// Each run is represented by its main device: the accelerator that uses most memory, else the CPU.
// The devices of different ranks have different names, so devices are not matched by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "logs/summary.h"

namespace plimsoll::logs {

// One figure of all runs; null for a run without it.
struct ComparedFigure {
  std::string group;
  std::string name;
  std::string at;
  std::vector<std::optional<double>> values;
  std::optional<double> difference;
  std::optional<double> median;
  std::optional<std::uint64_t> outlier;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"group", &ComparedFigure::group,
              "Group of the figure: run, device, category, dtype, host or training."},
        Field{"name", &ComparedFigure::name,
              "Name of a summary's figure, category or dtype, or of a field of the run."},
        Field{"at", &ComparedFigure::at, "start, end or max; empty for a value of the whole run."},
        Field{"values", &ComparedFigure::values, "One value for each run, in the order of runs."},
        Field{"difference", &ComparedFigure::difference,
              "For two runs: the second value minus the first."},
        Field{"median", &ComparedFigure::median, "For three or more runs: the median."},
        Field{"outlier", &ComparedFigure::outlier,
              "For three or more runs: index of the only run that differs from the median by more "
              "than 10 % and by more than twice as much as any other run."});
  }
};

struct ComparedRun {
  std::string label;
  std::string device;
  LogSummary summary;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"label", &ComparedRun::label,
              "rank3, the run's folder, or what distinguishes the files."},
        Field{"device", &ComparedRun::device, "The compared device; empty if none."},
        Field{"summary", &ComparedRun::summary,
              "The summary that plimsoll analyze FILE --json prints."});
  }
};

struct UnreadLog {
  std::string path;
  std::string reason;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"path", &UnreadLog::path, "Path of the file."},
        Field{"reason", &UnreadLog::reason, "Why the file could not be read, in one sentence."});
  }
};

struct LogComparison {
  std::uint64_t schema_version = 1;
  std::vector<ComparedRun> runs;
  std::vector<ComparedFigure> figures;
  std::optional<std::uint64_t> outlier;
  std::vector<UnreadLog> unread;

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"schema_version", &LogComparison::schema_version,
              "Version of this schema; increases when a field changes."},
        Field{"runs", &LogComparison::runs,
              "The runs, in the order given; ranks in ascending order."},
        Field{"figures", &LogComparison::figures, "The figures that at least one run has."},
        Field{"outlier", &LogComparison::outlier,
              "Index of the run that is the outlier in most memory figures; null if none is."},
        Field{"unread", &LogComparison::unread, "Logs that could not be read."});
  }
};

LogComparison compare_logs(std::vector<LogSummary> summaries);

// The distinguishing part of each path: "rank3", the folder of the run, the file's name, or the
// whole path.
std::vector<std::string> labels_of(const std::vector<std::string>& paths);

}  // namespace plimsoll::logs
