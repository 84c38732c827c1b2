#include "charts/segments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/units.h"
#include "charts/frame.h"
#include "model/last_use.h"
#include "model/live_set.h"

namespace plimsoll::charts {
namespace {

using page::Drawing;
using page::Fill;
using page::Paint;
using tiles::RangeKind;
using tiles::SegmentPart;
using tiles::SegmentParts;

constexpr std::size_t kGroupsShown = 8;

bool is_unused(const SegmentsData& data, const SegmentPart& part) {
  return part.lifetime != model::kNone && !data.are_unused.empty() &&
         data.are_unused[part.lifetime];
}

std::vector<bool> unused_lifetimes(const model::Trace& trace, const model::DeviceTrace& device,
                                   std::int64_t point) {
  if (!trace.has_uses) return {};
  const model::LastUses uses(trace, device);
  std::vector<bool> are_unused(device.lifetimes.size());
  for (const std::uint32_t row : model::live_set(device, model::default_liveness(device), point)) {
    are_unused[row] = uses.used_again(row, point) == model::UsedAgain::kNo;
  }
  return are_unused;
}

void count_blocks(SegmentsData& data) {
  data.group_bytes.assign(data.groups.names.size(), 0);
  for (const SegmentParts& segment : data.segments) {
    data.reserved_bytes += segment.segment.size_bytes;
    data.block_bytes += segment.block_bytes;
    data.pinned_bytes += segment.pinned_bytes;
    data.releasable_bytes += segment.releasable_bytes;
    data.private_bytes += segment.private_bytes;
    for (const SegmentPart& part : segment.parts) {
      if (part.kind != RangeKind::kBlock) continue;
      if (part.lifetime == model::kNone) {
        data.unknown_block_bytes += part.size_bytes;
      } else {
        data.group_bytes[data.groups.of[part.lifetime]] += part.size_bytes;
        if (is_unused(data, part)) data.unused_bytes += part.size_bytes;
      }
    }
  }
}

// Keeps the groups with the most bytes in blocks; all others become "[everything else]".
void keep_largest(SegmentsData& data, std::size_t keep) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t group = 0; group < data.groups.names.size(); ++group) order.push_back(group);
  if (order.size() <= keep + 1) return;
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return data.group_bytes[a] > data.group_bytes[b];
  });
  std::vector<std::uint32_t> renamed(order.size(), static_cast<std::uint32_t>(keep));
  std::vector<std::string> names;
  std::vector<std::uint64_t> bytes(keep + 1, 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < keep) {
      renamed[order[i]] = static_cast<std::uint32_t>(i);
      names.push_back(data.groups.names[order[i]]);
    }
    bytes[std::min(i, keep)] += data.group_bytes[order[i]];
  }
  names.emplace_back(tiles::kEverythingElse);
  for (std::uint32_t& group : data.groups.of) group = renamed[group];
  data.groups.names = std::move(names);
  data.group_bytes = std::move(bytes);
}

Fill pinned_fill() { return {Paint::kCritical, 0.12, Paint::kCritical}; }
Fill private_fill() { return {Paint::kFaint, 0.15, Paint::kFaint}; }
Fill releasable_fill() { return {Paint::kGrid, 0.6}; }

class SegmentsPainter {
 public:
  SegmentsPainter(const SegmentsData& data, const ChartOptions& options)
      : data_(data), options_(options) {
    for (const GroupStyle& style : data.styles) {
      if (fills_.size() <= style.group) fills_.resize(style.group + 1);
      fills_[style.group] = style.fill();
    }
    choose_shown();
  }

  Chart paint() {
    Drawing& drawing = chart_.drawing;
    drawing.width = std::max(options_.width, 200.0);
    const double header = add_header(drawing, options_, legend());
    plot_ = {kMargin, header + 6, drawing.width - 2 * kMargin, 0};
    choose_scale();
    choose_thinnest();
    plot_.height = kRow * static_cast<double>(rows_);
    drawing.height = std::max(plot_.bottom() + 8, options_.height);
    for (const SegmentParts* const segment : shown_) add_segment(*segment);
    chart_.x = plot_.x;
    chart_.y = plot_.y;
    chart_.width = plot_.width;
    chart_.height = plot_.height;
    describe();
    return std::move(chart_);
  }

 private:
  static constexpr double kBar = 14;
  static constexpr double kRow = 18;
  static constexpr double kRounding = 0.02;  // of positions
  static constexpr double kGap = 2;          // between segments
  // Narrower parts of a segment are drawn as one. This is the initial limit; it grows until there
  // are few enough parts.
  static constexpr double kThinnest = 0.8;
  static constexpr std::size_t kMostParts = 2'000;   // drawn, on a wide chart
  static constexpr std::size_t kMostSegments = 600;  // all others are drawn as one
  static constexpr std::size_t kFewestRows = 4;
  static constexpr std::size_t kMostRows = 26;  // unless a height is chosen

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries;
    const auto add = [&](const std::string& label, std::uint64_t bytes, const Fill& fill,
                         bool begins_row = false) {
      if (bytes == 0) return;
      entries.push_back({label + " " + bytes_text(bytes), fill, {}, begins_row});
    };
    for (const GroupStyle& style : data_.styles) {
      add(style.label, data_.group_bytes[style.group], style.fill());
    }
    add(kNotUsedAgain, data_.unused_bytes, kNotUsedAgainSwatch);
    add("blocks of unknown origin", data_.unknown_block_bytes, unknown_fill());
    if (rest_count_ > 0) {
      add("of which in " + base::counted(rest_count_, "smaller segment") + ", drawn as one:",
          rest_.block_bytes, rest_fill());
    }
    add("pinned", data_.pinned_bytes, pinned_fill(), true);
    add("releasable", data_.releasable_bytes, releasable_fill());
    add("free in private pools", data_.private_bytes, private_fill());
    return entries;
  }

  static Fill rest_fill() { return {Paint::kOther}; }
  static Fill unknown_fill() { return {Paint::kUnknown, 1, Paint::kBackground}; }

  double width_of(std::uint64_t bytes) const { return static_cast<double>(bytes) * per_byte_; }

  // In a chart of many segments, the last one is the sum of the smaller ones.
  void choose_shown() {
    const double share = std::clamp(options_.width / 1200, 0.25, 1.0);
    const auto most = static_cast<std::size_t>(static_cast<double>(kMostSegments) * share);
    for (const SegmentParts& segment : data_.segments) {
      if (data_.segments.size() > most + 1 && shown_.size() == most) break;
      shown_.push_back(&segment);
    }
    rest_count_ = data_.segments.size() - shown_.size();
    if (rest_count_ == 0) return;
    std::array<std::uint64_t, 4> bytes{};  // by kind
    for (std::size_t at = shown_.size(); at < data_.segments.size(); ++at) {
      const SegmentParts& segment = data_.segments[at];
      rest_.segment.size_bytes += segment.segment.size_bytes;
      for (const SegmentPart& part : segment.parts) {
        bytes[static_cast<std::size_t>(part.kind)] += part.size_bytes;
      }
      rest_.block_bytes += segment.block_bytes;
      rest_.pinned_bytes += segment.pinned_bytes;
    }
    for (std::size_t kind = 0; kind < bytes.size(); ++kind) {
      if (bytes[kind] == 0) continue;
      rest_.parts.push_back({.size_bytes = bytes[kind], .kind = static_cast<RangeKind>(kind)});
    }
    shown_.push_back(&rest_);
  }

  // Begins the next row if the segment does not fit into this row but fits into a whole one.
  void wrap(double width) {
    if (at_ > 0 && at_ + width > plot_.width + kRounding && width <= plot_.width) next_row();
  }
  void next_row() {
    at_ = 0;
    ++row_;
  }

  std::size_t rows_at(double per_byte) {
    per_byte_ = per_byte;
    at_ = 0;
    row_ = 0;
    for (const SegmentParts* const segment : shown_) {
      double width = width_of(segment->segment.size_bytes);
      wrap(width);
      while (at_ + width > plot_.width + kRounding) {
        width -= plot_.width - at_;
        next_row();
      }
      at_ += width + kGap;
    }
    const std::size_t rows = row_ + (at_ > 0 ? 1 : 0);
    at_ = 0;
    row_ = 0;
    return rows;
  }

  // Chooses the largest scale at which the rows fit.
  void choose_scale() {
    std::size_t most = std::clamp((shown_.size() + 7) / 8, kFewestRows, kMostRows);
    if (options_.height > 0) {
      most = static_cast<std::size_t>(std::max((options_.height - plot_.y - 8) / kRow, 1.0));
    }
    double low = 0;
    double high = plot_.width * static_cast<double>(most) /
                  std::max(static_cast<double>(data_.reserved_bytes), 1.0);
    if (rows_at(high) <= most) low = high;
    for (int i = 0; i < 40 && low < high; ++i) {
      const double middle = (low + high) / 2;
      (rows_at(middle) <= most ? low : high) = middle;
    }
    rows_ = std::max<std::size_t>(rows_at(low), 1);
    if (rows_ > most) {  // thousands of segments: the gaps alone fill the rows
      rows_ = most;
    }
  }

  // The end of the run of parts from `first` that is drawn as one; sets `bytes` to its size.
  std::size_t end_of_run(const SegmentParts& segment, std::size_t first,
                         std::uint64_t& bytes) const {
    bytes = segment.parts[first].size_bytes;
    std::size_t end = first + 1;
    while (end < segment.parts.size() && width_of(bytes) < thinnest_) {
      bytes += segment.parts[end++].size_bytes;
    }
    return end;
  }

  // Limits the number of parts, so that the size of a drawing is independent of that of blocks.
  void choose_thinnest() {
    const auto most = static_cast<std::size_t>(
        std::max(static_cast<double>(kMostParts) * std::min(1.0, plot_.width / 1200), 200.0));
    for (;; thinnest_ *= 2) {
      std::size_t count = 0;
      for (const SegmentParts* const segment : shown_) {
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < segment->parts.size(); ++count) {
          i = end_of_run(*segment, i, bytes);
        }
      }
      if (count <= std::max(most, shown_.size())) return;
    }
  }

  void add_segment(const SegmentParts& segment) {
    wrap(width_of(segment.segment.size_bytes));
    is_rest_ = &segment == &rest_;
    const std::string name =
        (is_rest_ ? base::counted(rest_count_, "smaller segment") + ", " : "segment of ") +
        bytes_text(segment.segment.size_bytes) + ": blocks " + bytes_text(segment.block_bytes) +
        ", pinned " + bytes_text(segment.pinned_bytes);
    piece_begin_ = at_;
    if (segment.parts.size() == 1 && fits(segment.segment.size_bytes)) {
      add_whole(segment);
      return;
    }
    for (std::size_t i = 0; i < segment.parts.size();) {
      // A run of parts too thin to see has the color of the kind with the most bytes.
      std::uint64_t bytes = 0;
      const std::size_t end = end_of_run(segment, i, bytes);
      const SegmentPart& shown = *std::max_element(
          segment.parts.begin() + static_cast<std::ptrdiff_t>(i),
          segment.parts.begin() + static_cast<std::ptrdiff_t>(end),
          [](const SegmentPart& a, const SegmentPart& b) { return a.size_bytes < b.size_bytes; });
      add_part(shown, bytes, end - i, name);
      i = end;
    }
    outline(name);
    end_segment();
  }

  void end_segment() {
    at_ += kGap;
    if (at_ >= plot_.width) next_row();
  }

  bool fits(std::uint64_t bytes) const { return at_ + width_of(bytes) <= plot_.width + kRounding; }

  // Most segments are a single block or free, and need one shape.
  void add_whole(const SegmentParts& segment) {
    const SegmentPart& part = segment.parts.front();
    const double width = width_of(part.size_bytes);
    add_box(width, part, {Paint::kFaint, 0.75}, tooltip(part, part.size_bytes, 1));
    at_ += width;
    end_segment();
  }

  // Continues in the next row at the right edge.
  void add_part(const SegmentPart& part, std::uint64_t bytes, std::size_t parts,
                const std::string& segment) {
    double width = width_of(bytes);
    while (width > kRounding) {
      if (plot_.width - at_ <= kRounding) {
        outline(segment);
        next_row();
        piece_begin_ = 0;
      }
      const double here = std::min(width, plot_.width - at_);
      // Leaves a seam after a block that is wide enough.
      const double seam = part.kind == RangeKind::kBlock && here > 4 ? 0.5 : 0;
      add_box(here - seam, part, {}, tooltip(part, bytes, parts));
      at_ += here;
      width -= here;
    }
  }

  void add_box(double width, const SegmentPart& part, const page::Stroke& edge,
               const std::string& text) {
    page::Rect box = {plot_.x + at_, y(), width, kBar, fill_of(part), edge, {text}};
    chart_.drawing.add(box);
    if (!is_unused(data_, part)) return;
    box.fill = kNotUsedAgainHatch;
    box.outline = {};
    chart_.drawing.add(box);
  }

  void outline(const std::string& name) {
    if (at_ <= piece_begin_) return;
    chart_.drawing.add(page::Rect{
        plot_.x + piece_begin_, y(), at_ - piece_begin_, kBar, {}, {Paint::kFaint, 0.75}, {name}});
  }

  double y() const { return plot_.y + kRow * static_cast<double>(std::min(row_, rows_ - 1)) + 2; }

  Fill fill_of(const SegmentPart& part) const {
    switch (part.kind) {
      case RangeKind::kPinned:
        return pinned_fill();
      case RangeKind::kReleasable:
        return releasable_fill();
      case RangeKind::kPrivate:
        return private_fill();
      case RangeKind::kBlock:
        break;
    }
    if (part.lifetime != model::kNone) return fills_[data_.groups.of[part.lifetime]];
    return is_rest_ ? rest_fill() : unknown_fill();
  }

  std::string tooltip(const SegmentPart& part, std::uint64_t bytes, std::size_t parts) const {
    const std::string size = bytes_text(bytes);
    if (parts > 1) return base::format_count(parts) + " blocks and gaps: " + size;
    switch (part.kind) {
      case RangeKind::kPinned:
        return "pinned: " + size;
      case RangeKind::kReleasable:
        return "releasable: " + size;
      case RangeKind::kPrivate:
        return "free in a private pool: " + size;
      case RangeKind::kBlock:
        break;
    }
    if (part.lifetime == model::kNone) return "blocks: " + size;
    return short_name(data_.groups.names[data_.groups.of[part.lifetime]]) + ": " + size +
           (is_unused(data_, part) ? std::string(", ") + kNotUsedAgain : "");
  }

  void describe() {
    chart_.description =
        base::counted(data_.segments.size(), "segment") + ", " + bytes_text(data_.reserved_bytes) +
        " reserved: blocks " + bytes_text(data_.block_bytes) +
        (data_.unused_bytes > 0 ? " (" + bytes_text(data_.unused_bytes) + " " + kNotUsedAgain + ")"
                                : "") +
        ", free but pinned " + bytes_text(data_.pinned_bytes) + ", releasable " +
        bytes_text(data_.releasable_bytes) + ".";
  }

  const SegmentsData& data_;
  const ChartOptions& options_;
  Chart chart_;
  PlotArea plot_;
  std::vector<Fill> fills_;  // by group
  std::vector<const SegmentParts*> shown_;
  SegmentParts rest_;  // the sum of the others
  std::size_t rest_count_ = 0;
  bool is_rest_ = false;  // whether rest_ is being drawn
  double per_byte_ = 0;
  double thinnest_ = kThinnest;
  std::size_t rows_ = 0;
  double at_ = 0;  // x in the current row
  std::size_t row_ = 0;
  double piece_begin_ = 0;  // of the segment, in the current row
};

}  // namespace

SegmentsData segments_data(const model::Trace& trace, const model::DeviceTrace& device,
                           const model::UserLines& lines, std::int64_t point,
                           std::optional<model::Dimension> by) {
  SegmentsData data;
  data.segments = tiles::segments(trace, device, point);
  std::ranges::stable_sort(data.segments, [](const SegmentParts& a, const SegmentParts& b) {
    return std::pair(a.pinned_bytes, a.segment.size_bytes) >
           std::pair(b.pinned_bytes, b.segment.size_bytes);
  });
  const model::Dimension dimension = by.value_or(default_dimension(trace, device, lines));
  data.groups = groups_by(trace, device, lines, dimension).value_or(tiles::Groups{});
  data.are_unused = unused_lifetimes(trace, device, point);
  count_blocks(data);
  if (dimension != model::Dimension::kCategory) keep_largest(data, kGroupsShown);
  data.styles = styles_of(data.groups.names, data.group_bytes, dimension);
  return data;
}

Chart segments(const SegmentsData& data, const ChartOptions& options) {
  if (data.segments.empty()) return message_chart("No segments at this point.", options);
  return SegmentsPainter(data, options).paint();
}

}  // namespace plimsoll::charts
