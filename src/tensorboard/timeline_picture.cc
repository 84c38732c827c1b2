#include "tensorboard/timeline_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/categories.h"
#include "base/units.h"
#include "page/drawing.h"
#include "page/paint.h"
#include "page/png.h"
#include "page/text_width.h"
#include "page/ticks.h"

namespace plimsoll::tensorboard {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;

// TensorBoard first shows the picture about 350 pixels wide, so it is small, and its text large.
constexpr double kWidth = 520;
constexpr double kHeight = 300;
constexpr double kLeft = 64;  // of the plot
constexpr double kRight = kWidth - 20;
constexpr double kBottom = kHeight - 34;
constexpr double kTitleBaseline = 22;
constexpr double kLegendBaseline = 42;
constexpr double kLegendLine = 17;
constexpr double kLegendLeft = 12;
constexpr double kLegendGap = 14;
constexpr double kLegendSquare = 10;
constexpr double kPeakSpace = 24;  // between the legend and the plot, for the label of the peak
constexpr page::Stroke kReservedStroke = {Paint::kMuted, 1.2, 3, 3};
constexpr page::Stroke kPeakStroke = {Paint::kCritical, 1.2};

std::uint64_t bytes_of(const TimelineColumn& column, base::Category category) {
  return column.category_bytes[static_cast<std::size_t>(category)];
}

// The categories that have memory in a column, bottom up.
std::vector<base::Category> bands_of(const Timeline& timeline) {
  std::vector<base::Category> bands;
  std::ranges::copy_if(base::kStackOrder, std::back_inserter(bands), [&](base::Category category) {
    return std::ranges::any_of(timeline.columns(), [&](const TimelineColumn& column) {
      return bytes_of(column, category) > 0;
    });
  });
  return bands;
}

page::Fill fill_of(std::string_view category) {
  const Paint paint = page::paint_of_category(category);
  return {paint, 1, page::is_hatched(paint) ? Paint::kBackground : Paint::kNone};
}

// Maps iterations and bytes to positions on the picture.
struct Scale {
  double first_iteration = 0;
  double end_iteration = 1;
  double highest_bytes = 1;
  double top = 0;

  double x(double iteration) const {
    const double share = (iteration - first_iteration) / (end_iteration - first_iteration);
    return kLeft + share * (kRight - kLeft);
  }
  double y(double bytes) const { return kBottom - bytes / highest_bytes * (kBottom - top); }
};

Scale scale_of(const Timeline& timeline, double top) {
  Scale scale;
  scale.top = top;
  const auto& columns = timeline.columns();
  scale.first_iteration = static_cast<double>(columns.front().iteration);
  const double last = static_cast<double>(timeline.last_iteration());
  // The last column is as wide as the average of the others.
  const double others = std::max(static_cast<double>(columns.size()) - 1, 1.0);
  scale.end_iteration = last + std::max((last - scale.first_iteration) / others, 1.0);
  for (const TimelineColumn& column : columns) {
    const std::uint64_t most =
        std::max({column.live_bytes, column.peak_bytes, column.reserved_bytes});
    scale.highest_bytes = std::max(scale.highest_bytes, static_cast<double>(most));
  }
  return scale;
}

// The left edge of each column, and the right edge of the last.
std::vector<double> edges_of(const Timeline& timeline, const Scale& scale) {
  std::vector<double> edges;
  for (const TimelineColumn& column : timeline.columns()) {
    edges.push_back(scale.x(static_cast<double>(column.iteration)));
  }
  edges.push_back(kRight);
  return edges;
}

void draw_axes(const Scale& scale, Drawing& drawing) {
  for (const page::Tick& tick : page::byte_ticks(scale.highest_bytes)) {
    const double y = std::floor(scale.y(tick.value)) + 0.5;
    drawing.line({kLeft, y}, {kRight, y}, {Paint::kGrid});
    drawing.add(page::Text{kLeft - 8, y + 4, tick.label, 11, Paint::kMuted, Anchor::kEnd});
  }
  drawing.line({kLeft, kBottom + 0.5}, {kRight, kBottom + 0.5}, {Paint::kLine});
  constexpr std::size_t kMostTicks = 6;
  for (const page::Tick& tick :
       page::count_ticks(scale.first_iteration, scale.end_iteration, kMostTicks)) {
    const double x = std::floor(scale.x(tick.value)) + 0.5;
    drawing.line({x, kBottom}, {x, kBottom + 4}, {Paint::kFaint});
    drawing.add(page::Text{x, kBottom + 18, tick.label, 11, Paint::kMuted, Anchor::kMiddle});
  }
}

void draw_bands(const Timeline& timeline, const std::vector<base::Category>& bands,
                const Scale& scale, Drawing& drawing) {
  const std::vector<double> edges = edges_of(timeline, scale);
  std::vector<double> below(timeline.columns().size());
  for (const base::Category band : bands) {
    page::Area area;
    area.edges = edges;
    area.fill = fill_of(name_of(band));
    for (std::size_t column = 0; column < below.size(); ++column) {
      area.bottoms.push_back(scale.y(below[column]));
      below[column] += static_cast<double>(bytes_of(timeline.columns()[column], band));
      area.tops.push_back(scale.y(below[column]));
    }
    drawing.add(std::move(area));
  }
}

// A line of steps through the known values.
void draw_steps(const Timeline& timeline, std::uint64_t TimelineColumn::* member,
                const page::Stroke& stroke, const Scale& scale, Drawing& drawing) {
  const std::vector<double> edges = edges_of(timeline, scale);
  page::Polyline line{{}, stroke};
  for (std::size_t column = 0; column < timeline.columns().size(); ++column) {
    const std::uint64_t bytes = timeline.columns()[column].*member;
    if (bytes == 0) continue;
    const double y = scale.y(static_cast<double>(bytes));
    line.points.push_back({edges[column], y});
    line.points.push_back({edges[column + 1], y});
  }
  if (!line.points.empty()) drawing.add(std::move(line));
}

// "peak 45.1 MiB · iteration 1,200" at the highest known peak; without peaks, at the sample with
// the most live bytes.
void draw_peak(const Timeline& timeline, const Scale& scale, Drawing& drawing) {
  const auto height = [](const TimelineColumn& column) {
    return std::max(column.peak_bytes, column.live_bytes);
  };
  const auto& columns = timeline.columns();
  const auto peak = std::ranges::max_element(columns, {}, height);
  const std::size_t at = static_cast<std::size_t>(peak - columns.begin());
  const std::vector<double> edges = edges_of(timeline, scale);
  const double x = (edges[at] + edges[at + 1]) / 2;
  const double y = scale.y(static_cast<double>(height(*peak)));
  drawing.add(page::Circle{x, y, 4.5, {Paint::kBackground}, {Paint::kCritical, 1.6}});
  drawing.line({x - 8, y}, {x + 8, y}, {Paint::kCritical, 1.6});
  const std::string label = "peak " + base::bytes_text(height(*peak)) + " · iteration " +
                            base::format_count(static_cast<std::uint64_t>(
                                std::max<std::int64_t>(peak->peak_iteration, 0)));
  const double width = page::text_width(label, {11, true});
  const bool fits = x + 12 + width <= kRight;
  drawing.add(page::Text{fits ? x + 12 : x - 12, y - 8, label, 11, Paint::kCritical,
                         fits ? Anchor::kStart : Anchor::kEnd, true});
}

// Writes the legend, and returns the baseline of its last line.
class Legend {
 public:
  explicit Legend(Drawing& drawing) : drawing_(drawing) {}

  void add_band(std::string_view name) {
    const double x = begin(name);
    drawing_.add(
        page::Rect{x, baseline_ - kLegendSquare + 1, kLegendSquare, kLegendSquare, fill_of(name)});
  }
  void add_line(std::string_view name, const page::Stroke& stroke) {
    const double x = begin(name);
    drawing_.line({x, baseline_ - 4}, {x + kLegendSquare + 4, baseline_ - 4}, stroke);
  }
  double baseline() const { return baseline_; }

 private:
  // Returns where the mark begins.
  double begin(std::string_view name) {
    const double width = kLegendSquare + 9 + page::text_width(name, {11}) + kLegendGap;
    if (x_ > kLegendLeft && x_ + width - kLegendGap > kRight) {
      x_ = kLegendLeft;
      baseline_ += kLegendLine;
    }
    const double x = x_;
    drawing_.add(page::Text{x + kLegendSquare + 9, baseline_, std::string(name), 11, Paint::kInk});
    x_ += width;
    return x;
  }

  Drawing& drawing_;
  double x_ = kLegendLeft;
  double baseline_ = kLegendBaseline;
};

bool is_known(const Timeline& timeline, std::uint64_t TimelineColumn::* member) {
  return std::ranges::any_of(timeline.columns(),
                             [member](const auto& column) { return column.*member > 0; });
}

}  // namespace

std::string timeline_png(const Timeline& timeline) {
  if (timeline.columns().empty()) return {};
  Drawing drawing{kWidth, kHeight};
  drawing.add(page::Text{12, kTitleBaseline,
                         "Memory on " + timeline.devices() + " at each sample, by iteration", 13,
                         Paint::kInk, Anchor::kStart, true});
  const std::vector<base::Category> bands = bands_of(timeline);
  const bool has_peaks = is_known(timeline, &TimelineColumn::peak_bytes);
  const bool has_reserved = is_known(timeline, &TimelineColumn::reserved_bytes);
  Legend legend(drawing);
  for (const base::Category band : bands) legend.add_band(name_of(band));
  if (has_peaks) legend.add_line("peak between samples", kPeakStroke);
  if (has_reserved) legend.add_line("reserved", kReservedStroke);
  const Scale scale = scale_of(timeline, legend.baseline() + kPeakSpace);
  draw_axes(scale, drawing);
  draw_bands(timeline, bands, scale, drawing);
  if (has_reserved) {
    draw_steps(timeline, &TimelineColumn::reserved_bytes, kReservedStroke, scale, drawing);
  }
  if (has_peaks) draw_steps(timeline, &TimelineColumn::peak_bytes, kPeakStroke, scale, drawing);
  draw_peak(timeline, scale, drawing);
  return page::to_png(drawing, page::Theme::kLight);
}

}  // namespace plimsoll::tensorboard
