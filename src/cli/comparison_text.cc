#include "cli/comparison_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sample/quantities.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::cli {
namespace {

using logs::ComparedFigure;
using logs::LogComparison;
using sample::number_text;
using text::TextTable;

// If there are more runs, each is a row instead of a column.
constexpr std::size_t kMostColumns = 4;
constexpr std::size_t kMostFiguresOfVerdict = 3;

bool is_bytes(const ComparedFigure& figure) {
  return figure.group == "category" || figure.group == "dtype" || figure.name.ends_with("_bytes");
}

bool is_memory(const ComparedFigure& figure) {
  return figure.group == "device" || figure.group == "category";
}

std::string compared_text(const ComparedFigure& figure, const std::optional<double>& value) {
  if (!value) return "-";
  if (!std::isfinite(*value)) return number_text(*value, "%g");
  if (is_bytes(figure)) return base::bytes_text(*value);
  if (figure.name.ends_with("_percent")) return number_text(*value, "%.1f%%");
  return number_text(*value, figure.name == "loss" ? "%.6g" : "%.0f");
}

std::string name_of(const ComparedFigure& figure) {
  std::string name = text::printable(figure.name.empty() ? "(none)" : figure.name);
  if (figure.group == "category" || figure.group == "dtype") return "  " + name;
  for (const std::string_view unit : {"_bytes", "_percent"}) {
    if (name.ends_with(unit)) name.resize(name.size() - unit.size());
  }
  std::ranges::replace(name, '_', ' ');
  if (name == "tensor") name = "used by tensors";
  return figure.at.empty() ? name : name + ", " + figure.at;
}

// "+1.1 GiB (+15.0%)"
std::string difference_text(const ComparedFigure& figure) {
  if (!figure.difference) return "";
  const double difference = *figure.difference;
  if (difference == 0) return "=";
  std::string text = (difference > 0 ? "+" : "") + compared_text(figure, difference);
  const double first = figure.values[0].value_or(0);
  if (first != 0 && !figure.name.ends_with("_percent")) {
    text += " (" + number_text(100 * difference / std::abs(first), "%+.1f%%") + ")";
  }
  return text;
}

std::string label(const LogComparison& comparison, std::uint64_t run) {
  return text::printable(comparison.runs[run].label);
}

std::string odd_text(const LogComparison& comparison, const ComparedFigure& figure) {
  return figure.outlier ? label(comparison, *figure.outlier) : "";
}

// The minimum and the maximum, each with its run unless they are equal.
std::vector<std::string> extremes_text(const LogComparison& comparison,
                                       const ComparedFigure& figure) {
  std::optional<std::size_t> least;
  std::optional<std::size_t> most;
  for (std::size_t i = 0; i < figure.values.size(); ++i) {
    const auto& value = figure.values[i];
    if (!value || std::isnan(*value)) continue;
    if (!least || *value < *figure.values[*least]) least = i;
    if (!most || *value > *figure.values[*most]) most = i;
  }
  if (!least) return {"-", "-"};
  std::vector<std::string> texts;
  for (const std::size_t run : {*least, *most}) {
    texts.push_back(compared_text(figure, figure.values[run]));
    if (*figure.values[*least] != *figure.values[*most]) {
      texts.back() += " " + label(comparison, run);
    }
  }
  return texts;
}

std::vector<TextTable::Column> columns_of(const LogComparison& comparison) {
  using enum text::TextTable::Align;
  std::vector<TextTable::Column> columns = {{"", kWords}};
  if (comparison.runs.size() > kMostColumns) {
    for (const char* const header : {"median", "min", "max", "outlier"}) {
      columns.push_back({header, kNumber});
    }
    return columns;
  }
  for (std::size_t i = 0; i < comparison.runs.size(); ++i) {
    columns.push_back({label(comparison, i), kNumber});
  }
  columns.push_back({comparison.runs.size() == 2 ? "difference" : "outlier", kNumber});
  return columns;
}

std::vector<std::string> row_of(const LogComparison& comparison, const ComparedFigure& figure) {
  std::vector<std::string> row = {name_of(figure)};
  if (comparison.runs.size() > kMostColumns) {
    row.push_back(compared_text(figure, figure.median));
    for (std::string& text : extremes_text(comparison, figure)) row.push_back(std::move(text));
    row.push_back(odd_text(comparison, figure));
    return row;
  }
  for (const auto& value : figure.values) row.push_back(compared_text(figure, value));
  row.push_back(comparison.runs.size() == 2 ? difference_text(figure)
                                            : odd_text(comparison, figure));
  return row;
}

std::string table_text(const LogComparison& comparison, const LogTextOptions& options) {
  TextTable table(columns_of(comparison));
  std::string_view group;
  for (const ComparedFigure& figure : comparison.figures) {
    const bool is_list = figure.group == "category" || figure.group == "dtype";
    if (is_list && figure.group != group) {
      std::vector<std::string> heading(columns_of(comparison).size());
      heading[0] = figure.group + ", end";
      table.add_row(heading);
    }
    group = figure.group;
    table.add_row(row_of(comparison, figure));
  }
  return table.to_text(options.width, options.color);
}

const ComparedFigure* main_figure(const LogComparison& comparison) {
  for (const char* const name : {"allocated_bytes", "tensor_bytes", "used_bytes"}) {
    for (const ComparedFigure& figure : comparison.figures) {
      if (figure.group == "device" && figure.name == name && figure.at == "max") return &figure;
    }
  }
  return nullptr;
}

// "b holds 1.1 GiB more than a at the highest sample: 8.0 GiB, not 6.9 GiB. At the end, ...".
std::string verdict_of_two(const LogComparison& comparison) {
  const ComparedFigure* const main = main_figure(comparison);
  if (main == nullptr || !main->difference) return "The runs have no memory figure in common.";
  const double difference = *main->difference;
  const std::string first = label(comparison, 0);
  const std::string second = label(comparison, 1);
  if (difference == 0) return second + " and " + first + " use the same at their highest samples.";
  std::string text = second + " uses " + base::bytes_text(std::abs(difference)) +
                     (difference > 0 ? " more than " : " less than ") + first +
                     " at the highest sample: " + compared_text(*main, main->values[1]) + ", not " +
                     compared_text(*main, main->values[0]) + ".";
  const ComparedFigure* largest = nullptr;
  for (const ComparedFigure& figure : comparison.figures) {
    if (figure.group != "category" || !figure.difference || *figure.difference == 0) continue;
    if (largest == nullptr || std::abs(*figure.difference) > std::abs(*largest->difference)) {
      largest = &figure;
    }
  }
  if (largest != nullptr) {
    text += " At the end, category " + text::printable(largest->name) +
            " differs most: " + difference_text(*largest) + ".";
  }
  return text;
}

std::string verdict_of_many(const LogComparison& comparison) {
  if (comparison.runs.size() == 1) {
    return "Only one of the logs could be read: there is nothing to compare it with.";
  }
  if (!comparison.outlier) return "No run is an outlier: no single run differs from the median.";
  const ComparedFigure* const main = main_figure(comparison);
  std::string text = label(comparison, *comparison.outlier) + " is the outlier:";
  std::size_t shown = 0;
  for (const ComparedFigure& figure : comparison.figures) {
    const bool is_chosen = &figure == main || figure.group == "category" || main == nullptr ||
                           main->outlier != comparison.outlier;
    if (!is_chosen || !is_memory(figure) || figure.outlier != comparison.outlier) continue;
    if (shown == kMostFiguresOfVerdict) break;
    std::string name = name_of(figure);
    name.erase(0, name.find_first_not_of(' '));
    text += (shown++ == 0 ? " " : "; ") + name + " " +
            compared_text(figure, figure.values[*figure.outlier]) + " (median " +
            compared_text(figure, figure.median) + ")";
  }
  return text + ".";
}

std::string runs_text(const LogComparison& comparison, const LogTextOptions& options) {
  std::string text;
  for (const logs::ComparedRun& run : comparison.runs) {
    std::string line = text::printable(run.label) + " \u00B7 " +
                       (run.device.empty() ? "no device" : text::printable(run.device)) +
                       " \u00B7 " + text::printable(run.summary.source.path);
    text += text::wrap(line, 0, options.width) + "\n";
    for (const MemoryAlert& finding : run.summary.findings) {
      text += "  " +
              text::wrap(
                  std::string(to_string(finding.severity)) + ": " + text::printable(finding.title),
                  2, options.width) +
              "\n";
    }
  }
  for (const logs::UnreadLog& unread : comparison.unread) {
    text += text::wrap("not compared: " + text::printable(unread.reason), 0, options.width) + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const LogComparison& comparison, const LogTextOptions& options) {
  const std::string verdict =
      comparison.runs.size() == 2 ? verdict_of_two(comparison) : verdict_of_many(comparison);
  return text::wrap(verdict, 0, options.width) + "\n\n" + table_text(comparison, options) + "\n" +
         runs_text(comparison, options);
}

}  // namespace plimsoll::cli
