#include "charts/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "charts/frame.h"
#include "charts/grouping.h"
#include "report/folded_layers.h"

namespace plimsoll::charts {
namespace {

using page::Anchor;
using page::Drawing;
using page::Paint;
using page::Text;
using report::FoldedLayerRow;
using report::LayerBytes;

struct Node {
  const FoldedLayerRow* row = nullptr;
  std::string name;  // relative to its parent; the full path at the top level
  std::vector<std::size_t> children;
};

// Nodes of the rows with bytes; the last one is the root, whose children are the top level.
std::vector<Node> tree_of(const report::Report& report, std::int32_t device) {
  std::vector<Node> nodes;
  std::unordered_map<std::string_view, std::size_t> by_path;
  Node root;
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (const FoldedLayerRow& row : report.tables.folded_layers) {
    if (row.device != device || row.inclusive.bytes == 0) continue;
    const std::size_t at = nodes.size();
    const std::string_view path = row.layer;
    const std::string_view parent = report::parent_layer(path);
    const auto found = parent.empty() ? by_path.end() : by_path.find(parent);
    if (found == by_path.end()) {
      root.children.push_back(at);
      nodes.push_back({&row, path.empty() ? "[no layer]" : std::string(path), {}});
    } else {
      edges.emplace_back(found->second, at);
      nodes.push_back({&row, std::string(path.substr(parent.size() + 1)), {}});
    }
    by_path.emplace(path, at);
  }
  for (const auto& [parent, child] : edges) nodes[parent].children.push_back(child);
  // Memory that belongs to no layer comes last.
  std::ranges::stable_partition(
      root.children, [&](std::size_t child) { return !nodes[child].row->layer.empty(); });
  nodes.push_back(std::move(root));
  return nodes;
}

std::size_t depth_of(const std::vector<Node>& nodes, const Node& node) {
  std::size_t deepest = 0;
  for (const std::size_t child : node.children) {
    deepest = std::max(deepest, 1 + depth_of(nodes, nodes[child]));
  }
  return deepest;
}

std::string label_of(const Node& node) {
  const std::size_t layers = node.row->layers.size();
  return short_name(node.name) + (layers > 1 ? " (" + std::to_string(layers) + " layers)" : "");
}

using Part = std::pair<std::string_view, std::uint64_t>;

std::array<Part, 4> phases_of(const LayerBytes& bytes) {
  return {{{"forward", bytes.forward_bytes},
           {"backward", bytes.backward_bytes},
           {"optimizer", bytes.optimizer_bytes},
           {"other", bytes.other_bytes}}};
}

class LayersPainter {
 public:
  LayersPainter(const report::Report& report, std::int32_t device, const ChartOptions& options)
      : nodes_(tree_of(report, device)), options_(options) {
    for (const std::size_t child : root().children) total_ += bytes_of(child);
  }

  bool is_empty() const { return total_ <= 0; }

  Chart paint() {
    Drawing& drawing = chart_.drawing;
    drawing.width = std::max(options_.width, 200.0);
    const std::size_t depth = depth_of(nodes_, root());
    const double header = add_header(drawing, options_, legend());
    plot_ = {kMargin, header + 6, drawing.width - 2 * kMargin, 0};
    rows_ = std::min(depth, kMostRows);
    if (options_.height > 0) {
      const double room = (options_.height - plot_.y - 6) / kRow;
      rows_ = std::min(depth, static_cast<std::size_t>(std::max(room, 1.0)));
    }
    plot_.height = kRow * static_cast<double>(rows_);
    drawing.height = plot_.bottom() + (rows_ < depth ? 26 : 8);
    if (options_.height > 0) drawing.height = std::max(drawing.height, options_.height);
    add_children(root(), plot_.x, 0);
    if (rows_ < depth) {
      const std::string note =
          std::to_string(depth - rows_) + " deeper levels are not shown; each is part of its box";
      drawing.add(Text{plot_.x, plot_.bottom() + 14, note, kAxisSize, Paint::kFaint});
    }
    chart_.x = plot_.x;
    chart_.y = plot_.y;
    chart_.width = plot_.width;
    chart_.height = plot_.height;
    describe();
    return std::move(chart_);
  }

 private:
  static constexpr double kBox = 24;        // height of a box
  static constexpr double kStripe = 5;      // below it
  static constexpr double kRow = 32;        // of a depth
  static constexpr double kThinnest = 1.5;  // narrower boxes are drawn as one
  static constexpr double kLabelSize = 11.5;
  static constexpr std::size_t kMostRows = 14;

  const Node& root() const { return nodes_.back(); }
  double bytes_of(std::size_t node) const {
    return static_cast<double>(nodes_[node].row->inclusive.bytes);
  }
  double width_of(double bytes) const { return plot_.width * bytes / total_; }

  static std::vector<LegendEntry> legend() {
    std::vector<LegendEntry> entries;
    for (const char* const phase : {"forward", "backward", "optimizer", "other"}) {
      const bool is_other = std::string_view(phase) == "other";
      entries.push_back({is_other ? "other times" : phase, {paint_of_phase(phase)}});
    }
    return entries;
  }

  // Boxes too thin to see become one, so no bytes are missing.
  void add_children(const Node& parent, double x, std::size_t depth) {
    if (depth >= rows_) return;
    double thin_bytes = 0;
    std::size_t thin_layers = 0;
    for (const std::size_t child : parent.children) {
      const double width = width_of(bytes_of(child));
      if (width < kThinnest) {
        thin_bytes += bytes_of(child);
        ++thin_layers;
        continue;
      }
      add_box(nodes_[child], x, width, depth);
      add_children(nodes_[child], x, depth + 1);
      x += width;
    }
    if (thin_layers == 0) return;
    const double y = plot_.y + kRow * static_cast<double>(depth);
    chart_.drawing.add(
        page::Rect{x,
                   y,
                   std::max(width_of(thin_bytes) - 0.5, 0.5),
                   kBox,
                   {Paint::kFaint, 0.5},
                   {},
                   {base::counted(thin_layers, "smaller layer") + ": " + bytes_text(thin_bytes)}});
  }

  void add_box(const Node& node, double x, double width, std::size_t depth) {
    Drawing& drawing = chart_.drawing;
    const double y = plot_.y + kRow * static_cast<double>(depth);
    const double gap = width > 6 ? 1.5 : 0.5;
    const std::string bytes = bytes_text(node.row->inclusive.bytes);
    drawing.add(page::Rect{
        x,
        y,
        width - gap,
        kBox,
        {Paint::kGrid},
        {},
        {short_name(node.row->layer.empty() ? node.name : node.row->layer) + ": " + bytes,
         node.row->layer}});
    add_stripe(*node.row, x, width - gap, y + kBox);
    add_box_label(label_of(node), bytes, x + 6, y + 16, width - gap - 10);
  }

  void add_box_label(const std::string& name, const std::string& bytes, double x, double baseline,
                     double room) {
    Drawing& drawing = chart_.drawing;
    const page::Font font = {kLabelSize};
    const std::string shown = page::fitted(name, font, room);
    if (shown.empty() || (shown != name && page::text_width(shown, font) < 22)) return;
    Text text{x, baseline, shown, kLabelSize, Paint::kInk};
    const std::string tail = "  " + bytes;
    if (page::text_width(name + tail, font) <= room) text.tail = tail;
    drawing.add(std::move(text));
  }

  void add_stripe(const FoldedLayerRow& row, double x, double width, double y) {
    const auto all = static_cast<double>(row.inclusive.bytes);
    for (const auto& [phase, bytes] : phases_of(row.inclusive)) {
      const double part = width * static_cast<double>(bytes) / all;
      if (part <= 0) continue;
      chart_.drawing.add(page::Rect{x,
                                    y,
                                    part,
                                    kStripe,
                                    {paint_of_phase(phase)},
                                    {},
                                    {std::string(phase) + ": " + bytes_text(bytes)}});
      x += part;
    }
  }

  void describe() {
    chart_.description = "Live bytes by layer, " + bytes_text(total_) + " in all; the largest are";
    std::vector<std::size_t> largest = root().children;
    std::ranges::sort(largest,
                      [&](std::size_t a, std::size_t b) { return bytes_of(a) > bytes_of(b); });
    for (std::size_t i = 0; i < std::min<std::size_t>(largest.size(), 3); ++i) {
      chart_.description += (i == 0 ? " " : ", ") + label_of(nodes_[largest[i]]) + " " +
                            bytes_text(bytes_of(largest[i]));
    }
    chart_.description += ".";
  }

  std::vector<Node> nodes_;
  const ChartOptions& options_;
  Chart chart_;
  PlotArea plot_;
  double total_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace

Chart layers(const report::Report& report, std::int32_t device, const ChartOptions& options) {
  LayersPainter painter(report, device, options);
  if (painter.is_empty()) return message_chart("No memory belongs to a layer.", options);
  return painter.paint();
}

}  // namespace plimsoll::charts
