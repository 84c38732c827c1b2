#include "charts/frame.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "page/escape.h"

namespace plimsoll::charts {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;
using page::Text;

constexpr double kTitleSize = 14;
constexpr double kSubtitleSize = 12;
constexpr double kLegendSize = 11.5;
constexpr double kLabelSize = 11.5;
constexpr double kSwatch = 10;
constexpr double kLineSwatch = 18;
constexpr double kLegendRow = 18;
constexpr double kLegendGap = 16;
constexpr std::size_t kLongestName = 60;

double swatch_width(const LegendEntry& entry) {
  return entry.stroke.paint == Paint::kNone ? kSwatch : kLineSwatch;
}

void add_swatch(Drawing& drawing, const LegendEntry& entry, double x, double baseline) {
  const double middle = std::round(baseline - kLegendSize * 0.36) + 0.5;
  if (entry.stroke.paint != Paint::kNone) {
    drawing.line({x, middle}, {x + kLineSwatch, middle}, entry.stroke);
  } else {
    page::Stroke outline;
    if (entry.fill.hatch == Paint::kCritical) outline = {Paint::kFaint, 0.75};
    drawing.add(page::Rect{x, middle - kSwatch / 2 - 0.5, kSwatch, kSwatch, entry.fill, outline});
  }
}

double add_legend(Drawing& drawing, const std::vector<LegendEntry>& legend, double y) {
  double x = kMargin;
  double baseline = y + kLegendRow - 5;
  for (const LegendEntry& entry : legend) {
    const double swatch = swatch_width(entry) + 6;
    const double room = drawing.width - 2 * kMargin - swatch;
    const std::string label = page::fitted(entry.label, {kLegendSize}, room);
    const double width = swatch + page::text_width(label, {kLegendSize});
    const bool is_full = x > kMargin && x + width > drawing.width - kMargin;
    if (is_full || (entry.begins_row && x > kMargin)) {
      x = kMargin;
      baseline += kLegendRow;
    }
    add_swatch(drawing, entry, x, baseline);
    drawing.add(Text{x + swatch, baseline, label, kLegendSize, Paint::kMuted});
    x += width + kLegendGap;
  }
  return baseline + 6;
}

}  // namespace

std::string spaced(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string short_name(std::string_view name) { return page::shortened(name, kLongestName); }

double add_header(Drawing& drawing, const ChartOptions& options,
                  const std::vector<LegendEntry>& legend) {
  double y = 0;
  const double room = drawing.width - 2 * kMargin;
  for (const std::string& line : page::wrapped(options.title, {kTitleSize, true}, room, 2)) {
    y += y == 0 ? 22 : 19;
    drawing.add(Text{kMargin, y, line, kTitleSize, Paint::kInk, Anchor::kStart, true});
  }
  for (const std::string& line : page::wrapped(options.subtitle, {kSubtitleSize}, room, 3)) {
    y += y == 0 ? 20 : 18;
    drawing.add(Text{kMargin, y, line, kSubtitleSize, Paint::kMuted});
  }
  if (y > 0) y += 8;
  if (options.has_legend && !legend.empty()) y = add_legend(drawing, legend, y);
  return y;
}

double tick_label_width(const std::vector<page::Tick>& ticks) {
  double width = 0;
  for (const page::Tick& tick : ticks) {
    width = std::max(width, page::text_width(tick.label, {kAxisSize}));
  }
  return width;
}

void add_byte_axis(Drawing& drawing, const PlotArea& plot, const std::vector<page::Tick>& ticks,
                   double bytes_at_top) {
  for (const page::Tick& tick : ticks) {
    if (tick.value > bytes_at_top) break;
    const double y = std::round(plot.bottom() - plot.height * tick.value / bytes_at_top) + 0.5;
    drawing.line({plot.x, y}, {plot.right(), y}, {Paint::kGrid});
    drawing.add(Text{plot.x - 8, y + 4, tick.label, kAxisSize, Paint::kFaint, Anchor::kEnd});
  }
}

void add_plated(Drawing& drawing, const Text& text) {
  const double width = page::text_width(text.text, font_of(text));
  double x = text.x - 3;
  if (text.anchor == Anchor::kMiddle) x -= width / 2;
  if (text.anchor == Anchor::kEnd) x = text.x - width - 3;
  drawing.add(
      page::Rect{x, text.y - text.size, width + 6, text.size * 1.35, {Paint::kBackground, 0.8}});
  drawing.add(text);
}

void LabelRow::add_caption(double x, const std::string& caption) {
  drawing_.add(Text{x, baseline_, caption, kAxisSize, Paint::kFaint, Anchor::kEnd});
  end_ = x;
}

void LabelRow::add(double center, const std::string& label) {
  const double half = page::text_width(label, {kAxisSize}) / 2;
  const double middle = std::max(std::min(center, drawing_.width - half - 2), half + 2);
  if (middle - half < end_ + 4) return;
  drawing_.add(Text{middle, baseline_, label, kAxisSize, Paint::kFaint, Anchor::kMiddle});
  end_ = middle + half;
}

Text label_next_to(const PlotArea& plot, double x, double gap, double baseline,
                   const std::vector<std::string>& texts) {
  Text text{x + gap, baseline, texts.back(), kLabelSize, Paint::kCritical, Anchor::kStart, true};
  for (const std::string& each : texts) {
    if (page::text_width(each, font_of(text)) > plot.width) continue;
    text.text = each;
    break;
  }
  text.text = page::fitted(text.text, font_of(text), plot.width);
  const double width = page::text_width(text.text, font_of(text));
  if (text.x + width <= plot.right()) return text;
  text.anchor = Anchor::kEnd;
  text.x = std::max(x - gap, plot.x + width);
  return text;
}

Chart message_chart(const std::string& message, const ChartOptions& options) {
  Chart chart;
  chart.drawing.width = std::max(options.width, 200.0);
  const double y = add_header(chart.drawing, options, {});
  chart.drawing.height = std::max({options.height, y + 48, 64.0});
  const double room = chart.drawing.width - 2 * kMargin;
  chart.drawing.add(Text{kMargin, y + 28, page::fitted(message, {13}, room), 13, Paint::kMuted});
  chart.x = kMargin;
  chart.y = y;
  chart.width = room;
  chart.height = chart.drawing.height - y;
  chart.description = message;
  return chart;
}

}  // namespace plimsoll::charts
