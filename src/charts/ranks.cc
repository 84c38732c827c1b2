#include "charts/ranks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "charts/frame.h"
#include "report/devices.h"

namespace plimsoll::charts {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;
using page::Text;

struct Cell {
  bool has_value = false;
  double bytes = 0;
  double deviation = 0;  // from the median of the group in this column
};

struct Row {
  std::string name;
  std::uint64_t group = 0;
  std::vector<Cell> cells;  // by column
  double peak_bytes = 0;
  bool has_failed = false;
  std::size_t end = 0;   // after the last cell
  double deviation = 0;  // the largest of a cell, either way
};

struct Grid {
  std::vector<std::uint64_t> steps;  // the first step of each column
  std::vector<Row> rows;
  std::size_t ranks = 0;
  std::uint64_t steps_each = 1;
  bool has_rest = true;  // the last column is a step that has not ended on any rank

  bool is_rest(std::size_t column) const {
    return has_rest && steps_each == 1 && column + 1 == steps.size();
  }
};

std::string label_of(const RankSteps& rank) { return "rank " + std::to_string(rank.rank); }

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Of several ranks, the one that differs most; one that has failed comes first.
bool matters_more(const Row& a, const Row& b) {
  return std::pair(a.has_failed, a.deviation) > std::pair(b.has_failed, b.deviation);
}

void add_deviations(std::vector<Row>& rows) {
  std::map<std::uint64_t, std::vector<Row*>> groups;
  for (Row& row : rows) groups[row.group].push_back(&row);
  for (const auto& [group, members] : groups) {
    for (std::size_t column = 0; column < members.front()->cells.size(); ++column) {
      std::vector<double> values;
      for (const Row* row : members) {
        if (row->cells[column].has_value) values.push_back(row->cells[column].bytes);
      }
      const double median = median_of(std::move(values));
      for (Row* row : members) {
        Cell& cell = row->cells[column];
        if (!cell.has_value) continue;
        cell.deviation = cell.bytes - median;
        row->deviation = std::max(row->deviation, std::fabs(cell.deviation));
      }
    }
  }
}

// Each column is one step, or several steps with their highest peak.
Grid grid_of(const std::vector<RankSteps>& ranks, std::size_t most_columns, std::size_t most_rows) {
  Grid grid;
  grid.ranks = ranks.size();
  std::map<std::uint64_t, std::size_t> columns;
  for (const RankSteps& each : ranks) {
    for (const StepPeak& step : each.steps) columns.emplace(step.step, 0);
  }
  if (columns.empty()) return grid;
  grid.steps_each = (columns.size() + most_columns - 1) / most_columns;
  std::size_t index = 0;
  for (auto& [step, column] : columns) {
    column = index++ / grid.steps_each;
    if (column == grid.steps.size()) grid.steps.push_back(step);
  }
  std::vector<Row> rows;
  for (const RankSteps& each : ranks) {
    Row row{label_of(each), each.group, std::vector<Cell>(grid.steps.size())};
    for (const StepPeak& step : each.steps) {
      const std::size_t column = columns[step.step];
      Cell& cell = row.cells[column];
      cell.bytes = std::max(cell.has_value ? cell.bytes : 0, static_cast<double>(step.peak_bytes));
      cell.has_value = true;
      row.end = std::max(row.end, column + 1);
      row.peak_bytes = std::max(row.peak_bytes, cell.bytes);
    }
    row.has_failed = each.has_failed;
    if (row.end == grid.steps.size() && !each.has_rest) grid.has_rest = false;
    rows.push_back(std::move(row));
  }
  add_deviations(rows);
  const std::size_t ranks_each = (rows.size() + most_rows - 1) / most_rows;
  for (std::size_t i = 0; i < rows.size(); i += ranks_each) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = static_cast<std::ptrdiff_t>(std::min(ranks_each, rows.size() - i));
    grid.rows.push_back(std::move(*std::min_element(begin, begin + count, matters_more)));
  }
  return grid;
}

class RanksPainter {
 public:
  RanksPainter(const std::vector<RankSteps>& ranks, const ChartOptions& options)
      : options_(options) {
    double label_width = 0;
    double bytes_width = 0;
    for (const RankSteps& each : ranks) {
      label_width = std::max(label_width, page::text_width(label_of(each), {kAxisSize}));
      bytes_width = std::max(bytes_width, page::text_width("1023.9 MiB", {kAxisSize}));
    }
    plot_.x = std::round(kMargin + label_width + 8);
    plot_.width =
        std::floor(std::max(std::max(options.width, 200.0) - plot_.x - bytes_width - 24, 60.0));
    grid_ = grid_of(ranks, static_cast<std::size_t>(plot_.width / kNarrowestCell), kMostRows);
    scale_ = kLeastScale;
    for (const Row& row : grid_.rows) scale_ = std::max(scale_, row.deviation);
    for (std::size_t i = 0; i < grid_.rows.size(); ++i) {
      if (matters_more(grid_.rows[i], grid_.rows[most_])) most_ = i;
    }
  }

  bool is_empty() const { return grid_.steps.empty(); }

  Chart paint() {
    Drawing& drawing = chart_.drawing;
    drawing.width = std::max(options_.width, 200.0);
    const double header = add_header(drawing, options_, legend());
    plot_.y = header + 18;
    const auto rows = static_cast<double>(grid_.rows.size());
    const double room = options_.height > 0 ? options_.height - plot_.y - kBottom : kHeight;
    row_height_ = std::clamp(room / rows, kShortestRow, kTallestRow);
    plot_.height = row_height_ * rows;
    drawing.height = std::max(plot_.bottom() + kBottom, options_.height);
    pitch_ = std::min(plot_.width / static_cast<double>(grid_.steps.size()), kWidestCell);
    const double peaks_x = x_of(grid_.steps.size()) + 10;
    const double above_first = std::min(plot_.y - 5, plot_.y + row_height_ / 2 + 4 - kLabelHeight);
    drawing.add(Text{peaks_x, above_first, "peak", kAxisSize, Paint::kFaint});
    for (std::size_t i = 0; i < grid_.rows.size(); ++i) add_row(i, peaks_x);
    add_labels();
    chart_.x = plot_.x;
    chart_.y = plot_.y;
    chart_.width = plot_.width;
    chart_.height = plot_.height;
    describe();
    return std::move(chart_);
  }

 private:
  static constexpr double kTallestRow = 22;
  static constexpr double kShortestRow = 3;
  static constexpr double kHeight = 420;         // of the rows, if there are many
  static constexpr std::size_t kMostRows = 420;  // more ranks share rows
  static constexpr double kBottom = 26;
  static constexpr double kLabelHeight = 13;
  static constexpr double kWidestCell = 110;
  static constexpr double kNarrowestCell = 3;
  static constexpr double kLevels = 16;            // of each of the two colors
  static constexpr std::size_t kMostCells = 4000;  // each has a shape and a tooltip
  static constexpr double kLeastScale = 1 << 20;   // smaller deviations are not made visible

  double x_of(std::size_t column) const { return plot_.x + pitch_ * static_cast<double>(column); }

  std::vector<LegendEntry> legend() const {
    const std::string most = bytes_text(scale_);
    return {{most + " below the median of the step", {Paint::kLow}},
            {"at the median", {Paint::kGrid}},
            {most + " above", {Paint::kHigh}}};
  }

  bool is_dense() const { return grid_.rows.size() * grid_.steps.size() > kMostCells; }

  void add_row(std::size_t index, double peaks_x) {
    const Row& row = grid_.rows[index];
    const double y = plot_.y + row_height_ * static_cast<double>(index);
    const double gap = row_height_ > 8 ? 2 : row_height_ > 4 ? 1 : 0;
    const double cell_gap = is_dense() ? 0 : pitch_ > 8 ? 1.5 : pitch_ > 4 ? 0.5 : 0;
    for (std::size_t i = 0; i < row.cells.size();) {
      const std::size_t end = is_dense() ? end_of_run(row, i) : i + 1;
      if (row.cells[i].has_value) {
        const double width = pitch_ * static_cast<double>(end - i) - cell_gap;
        add_cell(row, i, {x_of(i), y, width, row_height_ - gap, {}});
      }
      i = end;
    }
    const double middle = y + (row_height_ - gap) / 2;
    if (row.has_failed) add_cross(x_of(row.end) - cell_gap / 2 - std::min(pitch_ / 2, 8.0), middle);
    if (!is_labelled(index)) return;
    chart_.drawing.add(
        Text{plot_.x - 8, middle + 4, row.name, kAxisSize, Paint::kFaint, Anchor::kEnd});
    chart_.drawing.add(
        Text{peaks_x, middle + 4, bytes_text(row.peak_bytes), kAxisSize, Paint::kMuted});
  }

  // From -kLevels to kLevels.
  double level(const Row& row, std::size_t column) const {
    return std::round(std::clamp(row.cells[column].deviation / scale_, -1.0, 1.0) * kLevels);
  }
  // The end of the run of neighbors with the same color, which share a shape.
  std::size_t end_of_run(const Row& row, std::size_t begin) const {
    std::size_t end = begin + 1;
    while (end < row.cells.size() && row.cells[end].has_value == row.cells[begin].has_value &&
           (!row.cells[begin].has_value || level(row, end) == level(row, begin))) {
      ++end;
    }
    return end;
  }

  void add_cell(const Row& row, std::size_t column, page::Rect cell) {
    cell.fill = {Paint::kGrid};
    const double color = level(row, column);
    if (color != 0) chart_.drawing.add(cell);
    if (color != 0) {
      cell.fill = {color < 0 ? Paint::kLow : Paint::kHigh, std::fabs(color) / kLevels};
    }
    if (!is_dense()) {
      const double bytes = row.cells[column].deviation;
      cell.hint.tooltip = row.name + ", " + column_name(column) + ": " +
                          bytes_text(row.cells[column].bytes) + ", " + (bytes < 0 ? "" : "+") +
                          bytes_text(bytes) + " from the median";
    }
    chart_.drawing.add(std::move(cell));
  }

  std::string column_name(std::size_t column) const {
    const std::uint64_t first = grid_.steps[column];
    if (grid_.is_rest(column)) return report::kAfterLastStep;
    if (grid_.steps_each == 1) return "step " + std::to_string(first);
    return base::format_count(grid_.steps_each) + " steps from " + std::to_string(first);
  }

  // If rows are lower than text, only every second, fourth, ... has a label, and the one that
  // matters most, instead of its neighbors.
  bool is_labelled(std::size_t row) const {
    std::size_t every = 1;
    while (row_height_ * static_cast<double>(every) < kLabelHeight) every *= 2;
    if (row == most_) return true;
    const std::size_t rows_between = row > most_ ? row - most_ : most_ - row;
    return row % every == 0 && row_height_ * static_cast<double>(rows_between) >= kLabelHeight;
  }

  void add_cross(double x, double y) {
    const double size = std::clamp(row_height_ / 4, 2.0, 4.5);
    for (const double side : {-1.0, 1.0}) {
      chart_.drawing.line({x - size * side, y - size}, {x + size * side, y + size},
                          {Paint::kInk, 1.75});
    }
  }

  void add_labels() {
    const double widest = page::text_width(std::to_string(grid_.steps.back()), {kAxisSize}) + 12;
    const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(widest / pitch_)));
    LabelRow labels(chart_.drawing, plot_.bottom() + 15);
    labels.add_caption(plot_.x - 8, "step");
    for (std::size_t i = 0; i < grid_.steps.size(); i += every) {
      labels.add(x_of(i) + pitch_ / 2,
                 grid_.is_rest(i) ? report::kAfterLastStepShort : std::to_string(grid_.steps[i]));
    }
  }

  void describe() {
    const auto highest = std::ranges::max_element(grid_.rows, {}, &Row::peak_bytes);
    chart_.description = base::counted(grid_.ranks, "rank") + "; the highest peak is " +
                         bytes_text(highest->peak_bytes) + ", of " + highest->name + ".";
    for (const Row& row : grid_.rows) {
      if (row.has_failed) chart_.description += " Memory ran out on " + row.name + ".";
    }
  }

  const ChartOptions& options_;
  Chart chart_;
  PlotArea plot_;
  Grid grid_;
  std::size_t most_ = 0;  // the row that matters most
  double scale_ = 1;      // the deviation that gets the full color
  double row_height_ = 0;
  double pitch_ = 0;
};

}  // namespace

RankSteps steps_of(const report::Report& report, std::int32_t device, std::int64_t rank) {
  RankSteps steps;
  steps.rank = rank;
  for (const report::StepRow& row : report.tables.steps) {
    if (row.device != device) continue;
    steps.steps.push_back({row.step, row.peak_bytes});
    steps.has_rest = !row.is_complete;
  }
  const report::DeviceReport* found = report::find_device(report, device);
  steps.has_failed = found != nullptr && !found->ooms.empty();
  return steps;
}

Chart ranks(const std::vector<RankSteps>& ranks, const ChartOptions& options) {
  RanksPainter painter(ranks, options);
  if (painter.is_empty()) return message_chart("No steps are marked on any rank.", options);
  return painter.paint();
}

}  // namespace plimsoll::charts
