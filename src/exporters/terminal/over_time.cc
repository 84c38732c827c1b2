#include "exporters/terminal/over_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/categories.h"
#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/terminal/report.h"
#include "model/groupings.h"
#include "model/steps.h"
#include "text/block_chart.h"
#include "text/layout.h"
#include "tiles/axis.h"
#include "tiles/bands.h"
#include "tiles/columns.h"

namespace plimsoll::exporters::terminal {
namespace {

constexpr std::size_t kRows = 8;
constexpr std::size_t kLabelGap = 2;  // between two labels of the horizontal axis

// Colors from the terminal's palette of 256, in base::kStackOrder: medium tones, which are visible
// on both black and white.
constexpr std::array<std::uint8_t, base::kStackOrder.size()> kColors = {
    32, 74, 97, 36, 245, 101, 30, 142, 172, 167, 169, 140, 241, 65};

struct NamedBand {
  std::string_view name;
  text::ChartBand band;
};

const model::DeviceTrace* trace_of(const model::Trace& trace, const report::DeviceReport& device) {
  for (const model::DeviceTrace& each : trace.devices) {
    const bool is_meant =
        each.device.ordinal == device.device && name_of(each.device.type) == device.device_type;
    if (is_meant) return &each;
  }
  return nullptr;
}

// The categories that are live in any column, bottom up. Empty if categories are unknown.
std::vector<NamedBand> category_bands(const model::Trace& trace, const model::DeviceTrace& device,
                                      const model::UserLines& lines,
                                      const std::vector<tiles::Column>& columns) {
  std::vector<NamedBand> named;
  const auto grouping = model::make_grouping(trace, device, lines, model::Dimension::kCategory);
  if (grouping == nullptr) return named;
  const tiles::Bands bands =
      tiles::bands(trace, device, tiles::groups_of(*grouping, device), tiles::points_of(columns));
  for (std::size_t at = 0; at < kColors.size(); ++at) {
    const std::string_view name = base::name_of(base::kStackOrder[at]);
    const auto found = std::ranges::find(bands.names, name);
    if (found == bands.names.end()) continue;
    const auto bytes = bands.of(static_cast<std::size_t>(found - bands.names.begin()));
    named.push_back({name, {kColors[at], {bytes.begin(), bytes.end()}}});
  }
  return named;
}

std::vector<std::uint64_t> totals_of(const std::vector<tiles::Column>& columns) {
  std::vector<std::uint64_t> totals;
  for (const tiles::Column& column : columns) {
    totals.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(column.live_bytes, 0)));
  }
  return totals;
}

// A label of the horizontal axis: the column of its tick, and the one at which its text begins.
struct Label {
  std::size_t column = 0;
  std::size_t begin = 0;
  std::string text;
};

bool fits_after(const std::vector<Label>& labels, std::size_t begin) {
  return labels.empty() ||
         begin >= labels.back().begin + kLabelGap + text::display_width(labels.back().text);
}

// Labels at multiples of a stride, below `end`: the smallest of 1, 2, 5, 10, ... times `unit` at
// which all labels fit. `text_at` returns the text for a multiple.
template <typename TextAt>
std::vector<Label> labels_at_multiples(double end, double unit, double column_width,
                                       std::size_t columns, const TextAt& text_at) {
  constexpr std::array kFactors = {1.0, 2.0, 5.0};
  for (double power = 1;; power *= 10) {
    for (const double factor : kFactors) {
      const double stride = unit * factor * power;
      std::vector<Label> labels;
      bool is_fitting = true;
      for (double at = 0; at < end && is_fitting; at += stride) {
        const auto column = static_cast<std::size_t>(at / column_width);
        Label label{column, column, text_at(at)};
        if (column + text::display_width(label.text) > columns) break;
        is_fitting = fits_after(labels, column);
        labels.push_back(std::move(label));
      }
      if (is_fitting) return labels;
    }
  }
}

// The numbers of steps or, without steps, of events.
std::vector<Label> labels_of(const model::Trace& trace, const model::DeviceTrace& device,
                             const tiles::Axis& axis, std::size_t columns) {
  const double column_width = axis.end() / static_cast<double>(columns);
  if (axis.kind() != tiles::AxisKind::kStep) {
    // The largest power of ten that gives at least 100 labels, so that few strides are tried.
    const double unit = std::pow(10.0, std::max(std::floor(std::log10(axis.end())) - 2, 0.0));
    return labels_at_multiples(axis.end(), unit, column_width, columns, [](double at) {
      const std::string number = base::format_count(static_cast<std::uint64_t>(at));
      return at == 0 ? "event " + number : number;
    });
  }
  const std::vector<model::StepEnd> ends = model::step_ends(trace, device);
  const auto steps = static_cast<double>(ends.size());
  std::vector<Label> labels = labels_at_multiples(steps, 1, column_width, columns, [&](double at) {
    const std::string number = base::format_count(ends[static_cast<std::size_t>(at)].step);
    return at == 0 ? "step " + number : number;
  });
  if (axis.end() <= steps) return labels;
  const auto column = static_cast<std::size_t>(steps / column_width);
  const std::string_view whole = report::kAfterLastStep;
  const std::string_view name =
      column + whole.size() <= columns ? whole : report::kAfterLastStepShort;
  const std::size_t begin = std::min(column, columns - std::min(columns, name.size()));
  if (fits_after(labels, begin)) labels.push_back({column, begin, std::string(name)});
  return labels;
}

// "   └┴─────┴────" and, below it, the labels.
std::string axis_lines(const std::vector<Label>& labels, std::size_t columns,
                       std::size_t label_width) {
  std::string line = text::pad_left("0 B", label_width) + " └";
  std::string below(label_width + 2, ' ');
  std::size_t next = 0;
  for (std::size_t column = 0; column < columns; ++column) {
    const bool is_labeled = next < labels.size() && labels[next].column == column;
    line += is_labeled ? "┴" : "─";
    if (!is_labeled) continue;
    below = text::pad_right(below, label_width + 2 + labels[next].begin) + labels[next].text;
    ++next;
  }
  return line + "\n" + below + "\n";
}

// Writes `symbol` above each of `columns`, which ascend, and `words` next to the last symbol that
// has room for them.
std::string mark_line(const std::vector<std::size_t>& columns, std::string_view symbol,
                      const std::string& words, std::size_t count, std::size_t label_width) {
  std::string line(label_width + 2, ' ');
  std::size_t at = 0;  // the next column to write
  const auto add = [&](std::size_t column, std::string_view text) {
    if (column < at) return;
    line += std::string(column - at, ' ') + std::string(text);
    at = column + text::display_width(text);
  };
  const std::size_t width = text::display_width(words) + 1;
  const bool is_right = columns.back() + 1 + width <= count;
  std::size_t left_of = columns.size();  // index of the column with the words on its left
  for (std::size_t row = columns.size(); row-- > 0 && !is_right && left_of == columns.size();) {
    const std::size_t begin = row == 0 ? 0 : columns[row - 1] + 2;
    if (begin + width <= columns[row]) left_of = row;
  }
  for (std::size_t row = 0; row < columns.size(); ++row) {
    if (row == left_of) add(columns[row] - width, words);
    add(columns[row], symbol);
  }
  if (is_right) add(columns.back() + 2, words);
  return line;
}

// "▼ peak 45.1 MiB" above the column with the peak.
std::string peak_line(const std::vector<std::uint64_t>& totals, std::size_t label_width,
                      text::Color color) {
  const auto peak = std::ranges::max_element(totals);
  const auto column = static_cast<std::size_t>(peak - totals.begin());
  return text::styled(
      mark_line({column}, "▼", "peak " + bytes_text(*peak), totals.size(), label_width),
      text::Style::kBold, color);
}

// "✕ out of memory" above the columns in which memory ran out; empty if it never did.
std::string failure_line(const report::DeviceReport& device, const tiles::Axis& axis,
                         std::size_t count, std::size_t label_width, text::Color color) {
  std::vector<std::size_t> columns;
  for (const report::Oom& oom : device.ooms) {
    const double share = axis.position(static_cast<std::uint32_t>(oom.event)) / axis.end();
    const auto column = static_cast<std::size_t>(share * static_cast<double>(count));
    columns.push_back(std::min(column, count - 1));
  }
  if (columns.empty()) return {};
  std::string words = "out of memory";
  if (columns.size() > 1) words = base::format_count(columns.size()) + " times " + words;
  return text::styled(mark_line(columns, "✕", words, count, label_width), text::Style::kCritical,
                      color) +
         "\n";
}

// "Memory on cuda:0 over time", and the names of the colors.
std::string heading(const report::DeviceReport& device, const std::vector<NamedBand>& bands,
                    const text::BlockChart& chart, const OverTimeOptions& options) {
  const std::string title = "Memory on " + device_name(device) + " over time";
  std::string out = text::styled(title, text::Style::kBold, options.color);
  if (options.color == text::Color::kOff) return out + "\n";
  std::size_t used = text::display_width(title);
  const std::vector<bool> is_visible = text::visible_bands(chart);
  for (std::size_t band = 0; band < bands.size(); ++band) {
    if (!is_visible[band]) continue;
    const std::size_t width = bands[band].name.size() + 4;
    const bool fits = used + width <= options.width;
    out += fits ? "  " : "\n  ";
    used = fits ? used + width : width;
    out += text::in_color("■", bands[band].band.color, options.color) + " " +
           std::string(bands[band].name);
  }
  return out + "\n";
}

// Whether the size has at most one decimal, .0 or .5.
bool is_exact(std::uint64_t bytes) {
  std::uint64_t unit = 1;
  while (unit <= bytes / 1024) unit *= 1024;
  return bytes * 2 % unit == 0;
}

// Labels every second row, or every fourth if the labels between would be inexact.
std::vector<std::string> row_labels(std::uint64_t row_bytes) {
  const std::size_t stride = is_exact(2 * row_bytes) ? 2 : 4;
  std::vector<std::string> labels(kRows);
  for (std::size_t row = stride; row <= kRows; row += stride) {
    labels[row - 1] = bytes_text(row * row_bytes);
  }
  return labels;
}

}  // namespace

std::string over_time_text(const model::Trace& trace, const model::UserLines& lines,
                           const report::DeviceReport& device, const OverTimeOptions& options) {
  const model::DeviceTrace* const recorded = trace_of(trace, device);
  if (recorded == nullptr || recorded->events.size() == 0) return {};
  if (device.live_totals().peak_bytes <= 0 || device.disagreement_bytes() > 0) return {};

  text::BlockChart chart;
  chart.rows = kRows;
  chart.row_value =
      text::round_row_value(static_cast<std::uint64_t>(device.live_totals().peak_bytes), kRows);
  const std::vector<std::string> labels = row_labels(chart.row_value);
  std::size_t label_width = 0;
  for (const std::string& label : labels) label_width = std::max(label_width, label.size());
  label_width += 2;  // the same indent as tables
  const std::size_t count = std::max(options.width, kNarrowestReport) - label_width - 2;

  const tiles::Axis axis(trace, *recorded, tiles::Axis::best(trace, *recorded));
  const std::vector<tiles::Column> columns = tiles::columns(
      *recorded, axis, {device.live_totals().baseline_bytes, device.reserved.baseline_bytes}, 0,
      axis.end(), count);
  chart.totals = totals_of(columns);
  std::vector<NamedBand> bands;
  if (options.color == text::Color::kOn) bands = category_bands(trace, *recorded, lines, columns);
  for (const NamedBand& band : bands) chart.bands.push_back(band.band);

  std::string out = heading(device, bands, chart, options) +
                    failure_line(device, axis, count, label_width, options.color) +
                    peak_line(chart.totals, label_width, options.color) + "\n";
  const std::vector<std::string> rows = text::chart_rows(chart, options.color);
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::string& label = labels[kRows - 1 - row];
    const std::string line =
        text::pad_left(label, label_width) + (label.empty() ? " │" : " ┤") + rows[row];
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out + axis_lines(labels_of(trace, *recorded, axis, count), count, label_width);
}

}  // namespace plimsoll::exporters::terminal
