#include "charts/steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "charts/frame.h"
#include "page/ticks.h"

namespace plimsoll::charts {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;
using page::Text;
using report::StepRow;

// Adjacent steps that share a bar.
struct Bar {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t floor_bytes = 0;
  std::uint64_t peak_bytes = 0;
  bool is_complete = true;
};

// The bytes that each step certainly leaves behind, from the report's table of growth.
struct Slope {
  double bytes_per_step = 0;
  std::size_t lines = 0;
  std::size_t first_row = 0;  // the warm-up ends before it
};

std::vector<StepRow> rows_of(const report::Report& report, std::int32_t device) {
  std::vector<StepRow> rows;
  for (const StepRow& row : report.tables.steps) {
    if (row.device == device) rows.push_back(row);
  }
  return rows;
}

// The steps of this chart are those that the table of growth calls "step".
std::optional<Slope> certain_slope(const report::Report& report, std::int32_t device) {
  Slope slope;
  for (const report::GrowthRow& row : report.tables.growth) {
    if (row.device != device || !row.is_certain || row.boundary != "step") continue;
    if (row.bytes_per_step <= 0) continue;
    slope.bytes_per_step += row.bytes_per_step;
    slope.first_row = std::max(slope.first_row, static_cast<std::size_t>(row.first_step));
    ++slope.lines;
  }
  if (slope.lines == 0) return std::nullopt;
  return slope;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class StepsPainter {
 public:
  StepsPainter(const report::Report& report, std::int32_t device, const ChartOptions& options)
      : rows_(rows_of(report, device)), slope_(certain_slope(report, device)), options_(options) {
    for (const StepRow& row : rows_) most_ = std::max(most_, row.peak_bytes);
    chart_.bytes_at_top = std::max(static_cast<double>(most_) * kHeadroom, 1.0);
  }

  bool is_empty() const {
    return std::ranges::none_of(rows_, [](const StepRow& row) { return row.is_complete; });
  }

  Chart paint() {
    place();
    add_byte_axis(chart_.drawing, plot_, page::byte_ticks(chart_.bytes_at_top),
                  chart_.bytes_at_top);
    const double y = plot_.bottom() + 0.5;
    chart_.drawing.line({plot_.x, y}, {plot_.right(), y}, {Paint::kLine});
    for (std::size_t i = 0; i < bars_.size(); ++i) add_bar(i);
    add_labels();
    add_slope();
    add_peak_label();
    chart_.x = plot_.x;
    chart_.y = plot_.y;
    chart_.width = plot_.width;
    chart_.height = plot_.height;
    describe();
    return std::move(chart_);
  }

 private:
  static constexpr double kBottom = 26;
  static constexpr double kHeight = 200;  // height of the drawing without its header
  static constexpr double kHeadroom = 1.06;
  static constexpr double kNarrowestBar = 4;
  static constexpr double kWidestBar = 90;

  double y_of(double bytes) const {
    return plot_.bottom() - plot_.height * bytes / chart_.bytes_at_top;
  }
  double x_of(double bar) const { return plot_.x + pitch_ * bar; }

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries = {{"live at the end of the step", {Paint::kAccent, 0.4}},
                                        {"up to its peak", {Paint::kAccent, 0.15}},
                                        {"highest peak", {Paint::kCritical, 0.25}}};
    if (slope_) entries.push_back({"growth", {}, {Paint::kCritical, 1.5, 5, 3}});
    return entries;
  }

  void place() {
    Drawing& drawing = chart_.drawing;
    drawing.width = std::max(options_.width, 200.0);
    const double header = add_header(drawing, options_, legend());
    drawing.height = options_.height > 0 ? options_.height : header + kHeight;
    const double labels = tick_label_width(page::byte_ticks(chart_.bytes_at_top));
    plot_.x = std::round(std::max(labels, 30.0) + kLeftMargin);
    plot_.y = std::round(header + kPeakMargin);
    plot_.width = std::floor(std::max(drawing.width - kRightMargin - plot_.x, 40.0));
    plot_.height = std::max(std::floor(drawing.height - kBottom - plot_.y), 20.0);
    drawing.height = std::max(drawing.height, plot_.bottom() + kBottom);
    make_bars(static_cast<std::size_t>(plot_.width / kNarrowestBar));
  }

  void make_bars(std::size_t most) {
    per_bar_ = (rows_.size() + most - 1) / most;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const StepRow& row = rows_[i];
      if (i % per_bar_ == 0) bars_.push_back({row.step, row.step});
      Bar& bar = bars_.back();
      bar.last = row.step;
      bar.floor_bytes = std::max(bar.floor_bytes, row.end_bytes);
      bar.peak_bytes = std::max(bar.peak_bytes, row.peak_bytes);
      bar.is_complete = bar.is_complete && row.is_complete;
    }
    pitch_ = std::min(plot_.width / static_cast<double>(bars_.size()), kWidestBar);
  }

  static std::string name_of(const Bar& bar) {
    if (bar.first != bar.last) {
      return "steps " + std::to_string(bar.first) + " to " + std::to_string(bar.last);
    }
    return bar.is_complete ? "step " + std::to_string(bar.first) : report::kAfterLastStep;
  }

  std::size_t highest() const {
    return static_cast<std::size_t>(std::ranges::max_element(bars_, {}, &Bar::peak_bytes) -
                                    bars_.begin());
  }

  void add_bar(std::size_t index) {
    Drawing& drawing = chart_.drawing;
    const Bar& bar = bars_[index];
    const bool is_highest = index == highest();
    const Paint paint = is_highest ? Paint::kCritical : Paint::kAccent;
    const double gap = pitch_ > 12 ? 3 : pitch_ > 6 ? 1.5 : 0.75;
    const double x = x_of(static_cast<double>(index)) + gap / 2;
    const double width = pitch_ - gap;
    const double floor = y_of(static_cast<double>(bar.floor_bytes));
    const double peak = y_of(static_cast<double>(bar.peak_bytes));
    const std::string name = name_of(bar);
    drawing.add(page::Rect{x, peak, width, plot_.bottom() - peak, {Paint::kBackground}});
    drawing.add(page::Rect{x,
                           floor,
                           width,
                           plot_.bottom() - floor,
                           {Paint::kAccent, bar.is_complete ? 0.4 : 0.2},
                           {},
                           {name + ": " + bytes_text(bar.floor_bytes) + " live at the end"}});
    drawing.add(page::Rect{x,
                           peak,
                           width,
                           floor - peak,
                           {paint, is_highest ? 0.25 : 0.15},
                           {},
                           {name + ": peak " + bytes_text(bar.peak_bytes)}});
    drawing.add(page::Rect{x, peak - 1, width, 2, {paint}});
  }

  void add_labels() {
    const auto label = [&](const Bar& bar) {
      if (!bar.is_complete) return std::string(report::kAfterLastStepShort);
      return std::to_string(bar.first);
    };
    double widest = 0;
    for (const Bar& bar : bars_) {
      widest = std::max(widest, page::text_width(label(bar), {kAxisSize}));
    }
    const auto every = static_cast<std::size_t>(std::ceil((widest + 10) / pitch_));
    LabelRow labels(chart_.drawing, plot_.bottom() + 16);
    labels.add_caption(plot_.x - 8, "step");
    for (std::size_t i = 0; i < bars_.size(); i += every) {
      labels.add(x_of(static_cast<double>(i) + 0.5), label(bars_[i]));
    }
  }

  void add_peak_label() {
    const std::size_t index = highest();
    const Bar& bar = bars_[index];
    const std::string label = "peak " + bytes_text(bar.peak_bytes);
    const double x = x_of(static_cast<double>(index));
    chart_.drawing.add(label_next_to(plot_, x, 2, y_of(static_cast<double>(bar.peak_bytes)) - 6,
                                     {label + " \xC2\xB7 " + name_of(bar), label}));
  }

  // Draws the table's growth as a line through the median of the floors after the warm-up.
  void add_slope() {
    if (!slope_) return;
    std::vector<double> residuals;
    std::size_t last = 0;
    for (std::size_t i = slope_->first_row; i < rows_.size(); ++i) {
      if (!rows_[i].is_complete) continue;
      residuals.push_back(static_cast<double>(rows_[i].end_bytes) -
                          slope_->bytes_per_step * static_cast<double>(i));
      last = i;
    }
    if (residuals.size() < 2) return;
    const double start = median(std::move(residuals));
    const auto point = [&](std::size_t row) {
      const double bytes = start + slope_->bytes_per_step * static_cast<double>(row);
      return page::Point{x_of((static_cast<double>(row) + 0.5) / static_cast<double>(per_bar_)),
                         y_of(bytes)};
    };
    chart_.drawing.line(point(slope_->first_row), point(last), {Paint::kCritical, 1.5, 5, 3});
    const std::string label = "+" + bytes_text(slope_->bytes_per_step) + " per step, in " +
                              base::counted(slope_->lines, "line");
    add_slope_label(
        {point(slope_->first_row).x, 0, label, 11.5, Paint::kCritical, Anchor::kStart, true});
  }

  // Places the label above the bars at the beginning of the growth, which are the lowest.
  void add_slope_label(Text text) {
    const double width = page::text_width(text.text, font_of(text));
    text.x = std::clamp(text.x, plot_.x, std::max(plot_.right() - width, plot_.x));
    std::uint64_t highest = 0;
    for (std::size_t i = 0; i < bars_.size(); ++i) {
      const double left = x_of(static_cast<double>(i));
      if (left + pitch_ < text.x || left > text.x + width) continue;
      highest = std::max(highest, bars_[i].peak_bytes);
    }
    text.y = y_of(static_cast<double>(highest)) - 8;
    // If it would collide with the label of the peak, it is placed on the bars instead.
    if (text.y < plot_.y + 26) text.y = plot_.y + 34;
    add_plated(chart_.drawing, text);
  }

  void describe() {
    const Bar& bar = bars_[highest()];
    chart_.description = base::counted(rows_.size(), "step") + "; the highest peak is " +
                         bytes_text(bar.peak_bytes) + " in " + name_of(bar) + ".";
    if (slope_) {
      chart_.description += " Each step leaves " + bytes_text(slope_->bytes_per_step) + " behind.";
    }
  }

  std::vector<StepRow> rows_;
  std::optional<Slope> slope_;
  const ChartOptions& options_;
  Chart chart_;
  PlotArea plot_;
  std::vector<Bar> bars_;
  std::size_t per_bar_ = 1;  // rows
  double pitch_ = 0;
  std::uint64_t most_ = 0;
};

}  // namespace

Chart steps(const report::Report& report, std::int32_t device, const ChartOptions& options) {
  StepsPainter painter(report, device, options);
  if (painter.is_empty()) return message_chart("No steps are marked.", options);
  return painter.paint();
}

}  // namespace plimsoll::charts
