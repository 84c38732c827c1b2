#include "charts/timeline.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "charts/frame.h"
#include "page/ticks.h"

namespace plimsoll::charts {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;
using page::Point;
using page::Text;

double reserved_peak(const TimelineData& data) {
  double most = 0;
  for (const tiles::Column& column : data.columns) {
    most = std::max(most, static_cast<double>(column.reserved_bytes));
  }
  return most;
}

// Bytes of a band or of the unexplained rest, never negative.
double height_of(std::int64_t bytes) {
  return static_cast<double>(std::max<std::int64_t>(0, bytes));
}

// The height of the highest stack. It differs from the totals if the file contradicts itself.
double highest_stack(const TimelineData& data) {
  double highest = 0;
  for (std::size_t i = 0; i < data.columns.size(); ++i) {
    double bytes = height_of(data.not_in_bands[i]);
    for (std::size_t band = 0; band < data.bands.names.size(); ++band) {
      bytes += static_cast<double>(data.bands.of(band)[i]);
    }
    highest = std::max(highest, bytes);
  }
  return highest;
}

class TimelinePainter {
 public:
  TimelinePainter(const TimelineData& data, const ChartOptions& options)
      : data_(data), options_(options) {
    peak_ = std::max(data.most_bytes(), 0.0);
    reserved_ = reserved_peak(data);
    shows_reserved_ = reserved_ > 0 && reserved_ <= kReservedShown * peak_;
    double highest = std::max(peak_, highest_stack(data));
    if (shows_reserved_) highest = std::max(highest, reserved_);
    if (data.limit_bytes) {
      const auto limit = static_cast<double>(*data.limit_bytes);
      shows_limit_ = limit > 0 && limit <= kLimitShown * highest;
      if (shows_limit_) highest = std::max(highest, limit);
    }
    chart_.bytes_at_top = std::max({highest * kHeadroom, options.bytes_at_top, 1.0});
    has_unexplained_ = std::ranges::any_of(data.not_in_bands, [](auto bytes) { return bytes > 0; });
  }

  Chart paint() {
    place();
    const std::vector<page::Tick> ticks = page::byte_ticks(chart_.bytes_at_top);
    PlotArea axis = plot_;
    if (data_.is_truncated) {  // the strip that shows this is between labels and bands
      axis.x -= kTruncatedStrip;
      axis.width += kTruncatedStrip;
    }
    add_byte_axis(drawing(), axis, ticks, chart_.bytes_at_top);
    add_bands();
    add_truncation();
    add_lines();
    add_axis();
    add_failures();
    add_peak();
    chart_.x = plot_.x;
    chart_.y = plot_.y;
    chart_.width = plot_.width;
    chart_.height = plot_.height;
    describe();
    return std::move(chart_);
  }

 private:
  static constexpr double kFailureRow = 16;  // additional height if memory ran out
  static constexpr double kBottom = 34;      // below the plot: ribbon and labels
  static constexpr double kHeight = 320;     // height of the drawing without its header
  static constexpr double kHeadroom = 1.04;  // of the y axis above the highest line
  static constexpr double kSeam = 0.75;      // between bands that are at least kSeamFrom high
  static constexpr double kSeamFrom = 3;
  // The name in the report's tables.
  static constexpr const char* kOlder = "allocated before the recording, not in the file";
  static constexpr double kRibbon = 5;
  static constexpr double kTruncatedStrip = 7;
  static constexpr double kReservedShown =
      2.5;  // times the peak: a higher line would flatten the bands
  static constexpr double kLimitShown = 2;
  static constexpr double kSnapTolerance = 50;

  Drawing& drawing() { return chart_.drawing; }
  double x_of(double column) const {
    return plot_.x + plot_.width * column / static_cast<double>(data_.columns.size());
  }
  double y_of(double bytes) const {
    return plot_.bottom() - plot_.height * bytes / chart_.bytes_at_top;
  }
  double ticks_y() const { return plot_.bottom() + (data_.phases.empty() ? 1 : kRibbon + 3); }
  double label_y() const { return ticks_y() + 16; }
  std::int64_t peak_bytes() const { return data_.columns[data_.peak_column].live_bytes; }

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries;
    if (has_unexplained_) entries.push_back({kOlder, unexplained()});
    for (const GroupStyle& style : data_.stack) {
      const auto bytes = data_.bands.of(style.group);
      if (std::ranges::any_of(bytes, [](auto each) { return each > 0; })) {
        entries.push_back({style.label, style.fill()});
      }
    }
    if (std::ranges::any_of(data_.unused.bytes, [](auto bytes) { return bytes > 0; })) {
      entries.push_back({kNotUsedAgain, kNotUsedAgainSwatch});
    }
    const std::size_t bands = entries.size();
    const page::Stroke dashes = {Paint::kMuted, 1, 3, 3};
    if (shows_reserved_) {
      entries.push_back({"reserved", {}, dashes});
    } else if (reserved_ > 0) {
      entries.push_back(
          {"reserved: up to " + bytes_text(reserved_) + ", above the chart", {}, dashes});
    }
    if (data_.is_truncated) entries.push_back({"earlier events are lost", truncated()});
    bool is_first = true;
    for (const char* const phase : {"forward", "backward", "optimizer", "data"}) {
      if (std::ranges::find(data_.phases, phase, &AxisSpan::label) == data_.phases.end()) continue;
      const std::string label = is_first ? std::string("in the strip: ") + phase : phase;
      entries.push_back({label, {paint_of_phase(phase)}});
      is_first = false;
    }
    if (entries.size() > bands + 1) entries[bands].begins_row = true;
    return entries;
  }

  static page::Fill unexplained() { return {Paint::kLine, 1, Paint::kFaint}; }
  static page::Fill truncated() { return {Paint::kNone, 1, Paint::kMuted}; }

  void place() {
    drawing().width = std::max(options_.width, 200.0);
    const double header = add_header(drawing(), options_, legend());
    drawing().height = options_.height > 0 ? options_.height : header + kHeight;
    const double labels = tick_label_width(page::byte_ticks(chart_.bytes_at_top));
    plot_.x = std::round(std::max(labels, 30.0) + kLeftMargin);
    if (data_.is_truncated) plot_.x += kTruncatedStrip;
    plot_.width = std::floor(std::max(drawing().width - kRightMargin - plot_.x, 40.0));
    // Columns of exactly one pixel are sharper than columns of nearly one.
    const auto columns = static_cast<double>(data_.columns.size());
    if (columns <= plot_.width && plot_.width - columns < kSnapTolerance) {
      plot_.x += plot_.width - columns;
      plot_.width = columns;
    }
    plot_.y = std::round(header + kPeakMargin + (data_.failures.empty() ? 0 : kFailureRow));
    plot_.height = std::max(std::floor(drawing().height - kBottom - plot_.y), 20.0);
    drawing().height = std::max(drawing().height, plot_.bottom() + kBottom);
  }

  void add_bands() {
    const std::size_t count = data_.columns.size();
    std::vector<double> edges;
    for (std::size_t i = 0; i <= count; ++i) edges.push_back(x_of(static_cast<double>(i)));
    std::vector<double> base(count, 0);
    if (has_unexplained_) {
      add_band(edges, base, unexplained(), kOlder, "",
               [&](std::size_t i) { return height_of(data_.not_in_bands[i]); });
    }
    for (const GroupStyle& style : data_.stack) {
      const auto bytes = data_.bands.of(style.group);
      add_band(edges, base, style.fill(), style.label, data_.bands.names[style.group],
               [&](std::size_t i) { return bytes[i]; });
      add_unused(edges, base, style);
    }
    add_total(edges, base);
  }

  // Adds the band's bytes to `base`.
  template <typename Bytes>
  void add_band(const std::vector<double>& edges, std::vector<double>& base, const page::Fill& fill,
                const std::string& label, const std::string& key, const Bytes& bytes) {
    page::Area area;
    area.edges = edges;
    area.fill = fill;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const double bottom = y_of(base[i]);
      base[i] += static_cast<double>(bytes(i));
      const double top = y_of(base[i]);
      area.bottoms.push_back(bottom);
      area.tops.push_back(bottom - top >= kSeamFrom ? top + kSeam : top);
    }
    area.hint.key = key;
    area.hint.tooltip = label + ": " + bytes_text(bytes(data_.peak_column)) + " at the peak";
    drawing().add(std::move(area));
  }

  // Hatches the upper part of the band that ends at `tops`, in bytes.
  void add_unused(const std::vector<double>& edges, const std::vector<double>& tops,
                  const GroupStyle& style) {
    if (data_.unused.names.empty()) return;
    const auto bytes = data_.unused.of(style.group);
    if (std::ranges::all_of(bytes, [](auto each) { return each == 0; })) return;
    page::Area area;
    area.edges = edges;
    area.fill = kNotUsedAgainHatch;
    for (std::size_t i = 0; i < tops.size(); ++i) {
      const double bottom = y_of(tops[i] - static_cast<double>(bytes[i]));
      const double top = y_of(tops[i]);
      area.bottoms.push_back(bottom);
      area.tops.push_back(bottom - top >= kSeamFrom ? top + kSeam : top);
    }
    area.hint.tooltip = style.label + ", " + kNotUsedAgain + ": " +
                        bytes_text(bytes[data_.peak_column]) + " at the peak";
    drawing().add(std::move(area));
  }

  // Draws the outline of the whole stack.
  void add_total(const std::vector<double>& edges, const std::vector<double>& totals) {
    page::Polyline line;
    line.stroke = {Paint::kInk, 1, 0, 0, 0.55};
    for (std::size_t i = 0; i < totals.size(); ++i) {
      if (i > 0 && totals[i] == totals[i - 1]) continue;
      const double y = y_of(totals[i]);
      if (i > 0) line.points.push_back({edges[i], line.points.back().y});
      line.points.push_back({edges[i], y});
    }
    line.points.push_back({edges.back(), line.points.back().y});
    drawing().add(std::move(line));
  }

  void add_truncation() {
    if (!data_.is_truncated) return;
    drawing().add(page::Rect{plot_.x - kTruncatedStrip,
                             plot_.y,
                             kTruncatedStrip,
                             plot_.height,
                             truncated(),
                             {},
                             {"earlier events are lost: the bytes here are rolled back from the "
                              "final state"}});
  }

  void add_lines() {
    if (shows_reserved_) {
      page::Polyline line;
      line.stroke = {Paint::kMuted, 1, 3, 3};
      for (std::size_t i = 0; i < data_.columns.size(); ++i) {
        const double y =
            std::round(y_of(static_cast<double>(data_.columns[i].reserved_bytes))) + 0.5;
        const double x = x_of(static_cast<double>(i));
        if (!line.points.empty() && line.points.back().y == y) continue;
        if (!line.points.empty()) line.points.push_back({x, line.points.back().y});
        line.points.push_back({x, y});
      }
      line.points.push_back({plot_.right(), line.points.back().y});
      drawing().add(std::move(line));
    }
    if (shows_limit_) {
      const auto limit = static_cast<double>(*data_.limit_bytes);
      const double y = std::round(y_of(limit)) + 0.5;
      drawing().line({plot_.x, y}, {plot_.right(), y}, {Paint::kInk, 1.25});
      limit_y_ = y;
    }
  }

  void add_axis() {
    const double y = plot_.bottom();
    drawing().line({plot_.x, y + 0.5}, {plot_.right(), y + 0.5}, {Paint::kLine});
    for (const AxisSpan& span : data_.phases) {
      drawing().add(page::Rect{x_of(span.begin),
                               y + 3,
                               x_of(span.end) - x_of(span.begin),
                               kRibbon,
                               {span.label == "other" ? Paint::kLine : paint_of_phase(span.label)},
                               {},
                               {span.label}});
    }
    if (data_.steps.empty()) {
      add_ticks();
    } else {
      add_steps();
    }
  }

  void add_ticks() {
    const bool has_times = data_.axis == tiles::AxisKind::kTime;
    const auto most = static_cast<std::size_t>(std::max(2.0, plot_.width / 110));
    const std::vector<page::Tick> ticks = has_times ? page::time_ticks(0, data_.end - 1, most)
                                                    : page::count_ticks(0, data_.end - 1, most);
    const double per_unit = static_cast<double>(data_.columns.size()) / data_.end;
    LabelRow labels(drawing(), label_y());
    for (const page::Tick& tick : ticks) {
      const double x = std::floor(x_of(tick.value * per_unit)) + 0.5;
      drawing().line({x, ticks_y()}, {x, ticks_y() + 4}, {Paint::kFaint});
      labels.add(x, has_times ? tick.label : "event " + tick.label);
    }
  }

  // The largest number of a step; the rest after the last one has none.
  std::string last_step() const {
    const std::size_t last = data_.steps.size() - 1;
    return last > 0 && data_.steps[last].label.empty() ? data_.steps[last - 1].label
                                                       : data_.steps[last].label;
  }

  // Thins the labels until they fit: every step, every second, every fifth, every tenth...
  void add_steps() {
    const double narrowest = plot_.width / static_cast<double>(data_.steps.size());
    const double room = page::text_width(last_step(), {kAxisSize}) + 12;
    const bool has_prefix = narrowest > room + page::text_width("step ", {kAxisSize});
    std::uint64_t every = 1;
    for (int i = 0; narrowest * static_cast<double>(every) < room; ++i) {
      every = every * (i % 3 == 1 ? 5 : 4) / 2;
    }
    LabelRow labels(drawing(), label_y());
    if (!has_prefix) labels.add_caption(plot_.x - 8, "step");
    for (const AxisSpan& span : data_.steps) {
      const bool is_rest = span.label.empty();
      if (!is_rest && std::stoull(span.label) % every != 0) continue;
      const double begin = x_of(span.begin);
      const double end = x_of(span.end);
      const double x = std::floor(begin) + 0.5;
      drawing().line({x, plot_.bottom() + 2}, {x, ticks_y() + 5}, {Paint::kLine});
      const std::string label = is_rest ? rest_label(end - begin) : span.label;
      labels.add((begin + end) / 2, (has_prefix && !is_rest ? "step " : "") + label);
    }
  }

  static std::string rest_label(double room) {
    for (const char* const label : {report::kAfterLastStep, report::kAfterLastStepShort}) {
      if (page::text_width(label, {kAxisSize}) <= room - 4) return label;
    }
    return "\xE2\x80\xA6";
  }

  // Draws a line at each failure, and a label at the last one.
  void add_failures() {
    if (data_.failures.empty()) return;
    const double top = plot_.y - kFailureRow - 2;
    constexpr double kLeastBetweenFailures = 6;
    double last_x = -kLeastBetweenFailures;
    for (const TimelineData::Failure& failure : data_.failures) {
      const double x = std::min(std::floor(x_of(failure.column)) + 0.5, plot_.right() - 0.5);
      if (x - last_x < kLeastBetweenFailures) continue;  // hundreds would hide the bands
      last_x = x;
      chart_.marks.push_back({x, top, static_cast<std::int64_t>(failure.event)});
      drawing().line({x, top + 4}, {x, plot_.bottom()}, {Paint::kCritical, 1.25});
      for (const double side : {-1.0, 1.0}) {
        drawing().line({x - 4 * side, top - 4}, {x + 4 * side, top + 4}, {Paint::kCritical, 1.75});
      }
    }
    const std::size_t count = data_.failures.size();
    const std::string label =
        count == 1 ? "out of memory" : base::format_count(count) + " times out of memory";
    const std::uint64_t requested = data_.failures.back().requested_bytes;  // 0: unknown
    const std::string longer =
        requested > 0 ? label + " \xC2\xB7 a request of " + bytes_text(requested) : label;
    add_plated(drawing(), label_next_to(plot_, last_x, 9, top + 4, {longer, label}));
  }

  // Draws the dashed line at the peak with its mark and label. The limit's label avoids this label.
  void add_peak() {
    if (peak_ <= 0 || !data_.is_peak_known) return;
    const double y = std::round(y_of(static_cast<double>(peak_bytes()))) + 0.5;
    const double x = x_of(static_cast<double>(data_.peak_column) + 0.5);
    chart_.marks.push_back({x, y, data_.columns[data_.peak_column].point});
    drawing().line({plot_.x, y}, {plot_.right(), y}, {Paint::kCritical, 1, 5, 4});
    drawing().add(page::Circle{x, y, 6, {Paint::kBackground}, {Paint::kCritical, 1.5}});
    drawing().line({x - 10.5, y}, {x + 10.5, y}, {Paint::kCritical, 1.5});
    const std::string label = "peak " + base::bytes_text(peak_bytes());
    const Text text =
        label_next_to(plot_, x, 15, y - 5, {label + " \xC2\xB7 " + data_.peak_place, label});
    if (limit_y_ > 0) add_limit_label(text, page::text_width(text.text, font_of(text)));
    add_plated(drawing(), text);
  }

  void add_limit_label(const Text& peak, double peak_width) {
    Text text{
        plot_.right() - 2, limit_y_ - 4, data_.limit_name + " " + bytes_text(*data_.limit_bytes),
        kAxisSize,         Paint::kInk,  Anchor::kEnd};
    text.text = page::fitted(text.text, font_of(text), plot_.width - 4);
    const double width = page::text_width(text.text, font_of(text));
    const double peak_left = peak.anchor == Anchor::kEnd ? peak.x - peak_width : peak.x;
    // Moves to the other end if the label of the peak is near.
    if (std::fabs(peak.y - text.y) < 16 && peak_left + peak_width > text.x - width - 8) {
      text.anchor = Anchor::kStart;
      text.x = plot_.x + 2;
    }
    add_plated(drawing(), text);
  }

  void describe() {
    const std::string axis = data_.axis == tiles::AxisKind::kTime
                                 ? std::string("time")
                                 : std::string(tiles::to_string(data_.axis)) + "s";
    chart_.description = "Live bytes over " + axis + ", stacked by " + model::to_string(data_.by);
    if (data_.is_peak_known) {
      chart_.description += ". Peak " + base::bytes_text(peak_bytes()) + ", " + data_.peak_place;
      const std::uint64_t unused = data_.unused_bytes(data_.peak_column);
      if (unused > 0) chart_.description += ", " + bytes_text(unused) + " " + kNotUsedAgain;
      chart_.description += ".";
    } else {
      chart_.description += ". The peak is unknown: events and segments disagree.";
    }
  }

  const TimelineData& data_;
  const ChartOptions& options_;
  Chart chart_;
  PlotArea plot_;
  double peak_ = 0;
  double reserved_ = 0;
  bool shows_reserved_ = false;
  bool shows_limit_ = false;
  bool has_unexplained_ = false;
  double limit_y_ = 0;  // 0: no line
};

}  // namespace

Chart timeline(const TimelineData& data, const ChartOptions& options) {
  if (data.columns.empty()) return message_chart("No memory events were recorded.", options);
  return TimelinePainter(data, options).paint();
}

std::size_t timeline_columns(const ChartOptions& options) {
  return static_cast<std::size_t>(std::clamp(std::floor(options.width) - 96, 100.0, 2048.0));
}

}  // namespace plimsoll::charts
