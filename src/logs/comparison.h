// Several runs, or the ranks of one, side by side: their figures, how they differ, which is odd.
//
// Each run is compared by its main device: of the accelerators the one that holds most, else the
// CPU. Ranks use different devices, so names of devices are not matched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "logs/summary.h"

namespace plimsoll::logs {

// One figure of all runs. Null where a run does not have it.
struct ComparedFigure {
  std::string group;
  std::string name;
  std::string at;
  std::vector<std::optional<double>> values;
  std::optional<double> difference;
  std::optional<double> median;
  std::optional<std::uint64_t> odd;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"group", &ComparedFigure::group, "run, device, category, dtype, host or training."},
        Field{"name", &ComparedFigure::name,
              "As in a summary's figures, the name of a category or dtype, or a field of the run."},
        Field{"at", &ComparedFigure::at, "start, end or most; empty: of the whole run."},
        Field{"values", &ComparedFigure::values, "In the order of the runs."},
        Field{"difference", &ComparedFigure::difference,
              "Of two runs: the second minus the first."},
        Field{"median", &ComparedFigure::median, "Of three runs or more."},
        Field{"odd", &ComparedFigure::odd,
              "Of three runs or more, the index of the one that alone differs from the median: by "
              "more than 10 % of it, and more than twice as much as any other."}};
  }
};

struct ComparedRun {
  std::string label;
  std::string device;
  LogSummary summary;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"label", &ComparedRun::label,
              "rank3, the run's folder, or what distinguishes the files."},
        Field{"device", &ComparedRun::device, "The device that is compared; empty: none."},
        Field{"summary", &ComparedRun::summary, "As plimsoll analyze FILE --json prints it."}};
  }
};

struct UnreadLog {
  std::string path;
  std::string reason;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{Field{"path", &UnreadLog::path, "The file."},
                      Field{"reason", &UnreadLog::reason, "One sentence."}};
  }
};

struct LogComparison {
  std::uint64_t schema_version = 1;
  std::vector<ComparedRun> runs;
  std::vector<ComparedFigure> figures;
  std::optional<std::uint64_t> odd;
  std::vector<UnreadLog> unread;

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"schema_version", &LogComparison::schema_version, "Grows when a field changes."},
        Field{"runs", &LogComparison::runs, "In the order given, ranks in theirs."},
        Field{"figures", &LogComparison::figures, "Those that any run has."},
        Field{"odd", &LogComparison::odd,
              "The index of the run that is odd in most memory figures; null: none is."},
        Field{"unread", &LogComparison::unread, "Logs that could not be read."}};
  }
};

LogComparison compare_logs(std::vector<LogSummary> summaries);

// What distinguishes the paths: "rank3", the folder of the run, the file's name, or all of it.
std::vector<std::string> labels_of(const std::vector<std::string>& paths);

}  // namespace plimsoll::logs
