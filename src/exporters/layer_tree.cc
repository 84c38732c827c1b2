#include "exporters/layer_tree.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "base/natural_order.h"
#include "base/units.h"
#include "exporters/labels.h"
#include "text/layout.h"

namespace plimsoll::exporters {
namespace {

using report::FoldedLayerRow;
using FoldedRows = std::vector<const FoldedLayerRow*>;

// Rows by path, and the children of each. Siblings are sorted largest first, but numbered siblings
// stay together in numeric order, at the position of the largest of them.
class LayerTree {
 public:
  explicit LayerTree(const FoldedRows& rows) {
    for (const FoldedLayerRow* row : rows) by_path_.emplace(row->layer, row);
    for (const FoldedLayerRow* row : rows) {
      if (row->inclusive.bytes == 0) continue;
      const std::string_view parent = report::parent_layer(row->layer);
      const auto above = by_path_.find(parent);
      weight_[row] =
          row->inclusive.bytes / (above == by_path_.end() ? 1 : above->second->layers.size());
      const bool is_root = row->layer.empty() || parent.empty() || !by_path_.contains(parent);
      (is_root ? roots_ : children_[parent]).push_back(row);
    }
    sort(roots_);
    for (auto& [path, children] : children_) sort(children);
  }

  // The `top` largest rows, each after its parent. A layer inside equal layers counts with its size
  // in one of them; the sum over all would displace layers outside.
  FoldedRows largest(std::size_t top) const {
    FoldedRows open = roots_;
    FoldedRows chosen;
    while (!open.empty() && chosen.size() < top) {
      const auto next = std::ranges::max_element(open, [&](const auto* a, const auto* b) {
        const std::uint64_t left = weight_.at(a), right = weight_.at(b);
        return left != right ? left < right : base::natural_less(b->layer, a->layer);
      });
      chosen.push_back(*next);
      open.erase(next);
      const auto children = children_.find(chosen.back()->layer);
      if (chosen.back()->layer.empty() || children == children_.end()) continue;
      open.insert(open.end(), children->second.begin(), children->second.end());
    }
    FoldedRows ordered;
    for (const FoldedLayerRow* root : roots_) add_in_order(root, chosen, ordered);
    return ordered;
  }

 private:
  // By bytes, descending, then by path.
  static bool is_less(const FoldedLayerRow* a, const FoldedLayerRow* b) {
    if (a->inclusive.bytes != b->inclusive.bytes) return a->inclusive.bytes < b->inclusive.bytes;
    return base::natural_less(b->layer, a->layer);
  }

  // The path without the number at its end: "Net.conv" for "Net.conv12".
  static std::string_view stem(std::string_view path) {
    const std::size_t name = path.rfind('.') + 1;  // 0 if there is none
    return path.substr(0, path.find_first_of("0123456789", name));
  }

  static void sort(FoldedRows& rows) {
    std::map<std::string_view, const FoldedLayerRow*> largest;  // by stem
    for (const FoldedLayerRow* row : rows) {
      const FoldedLayerRow*& most = largest[stem(row->layer)];
      if (most == nullptr || is_less(most, row)) most = row;
    }
    std::ranges::sort(rows, [&](const FoldedLayerRow* a, const FoldedLayerRow* b) {
      const std::string_view left = stem(a->layer), right = stem(b->layer);
      if (left != right) return is_less(largest.at(right), largest.at(left));
      return base::natural_less(a->layer, b->layer);
    });
  }

  void add_in_order(const FoldedLayerRow* row, const FoldedRows& chosen, FoldedRows& out) const {
    if (std::ranges::find(chosen, row) == chosen.end()) return;
    out.push_back(row);
    const auto children = children_.find(row->layer);
    if (row->layer.empty() || children == children_.end()) return;
    for (const FoldedLayerRow* child : children->second) add_in_order(child, chosen, out);
  }

  std::map<std::string_view, const FoldedLayerRow*> by_path_;
  std::map<const FoldedLayerRow*, std::uint64_t> weight_;
  std::map<std::string_view, FoldedRows> children_;
  FoldedRows roots_;
};

// " (22 × 2.9 GiB)" for equal layers; empty if each of the `parents` contains only one.
std::string members_text(const FoldedLayerRow& row, std::size_t parents) {
  const std::size_t count = row.layers.size();
  if (count <= parents) return {};
  if (report::is_of_equal_size(row.smallest_bytes, row.largest_bytes)) {
    return " (" + base::format_count(count) + " × " + bytes_text(row.inclusive.bytes / count) + ")";
  }
  return " (" + base::format_count(count) + ", " + bytes_text(row.smallest_bytes) + " to " +
         bytes_text(row.largest_bytes) + ")";
}

// Names the row by its path below the nearest preceding row that contains it.
LayerTreeRow tree_row(const FoldedRows& rows, std::size_t at) {
  LayerTreeRow row{rows[at], 0, "[no layer]"};
  const std::string& path = rows[at]->layer;
  if (path.empty()) return row;
  std::string_view rest = path;
  std::size_t parents = 1;
  for (std::size_t above = 0; above < at; ++above) {
    const std::string& other = rows[above]->layer;
    const bool holds = !other.empty() && path.size() > other.size() && path.starts_with(other) &&
                       path[other.size()] == '.';
    if (!holds) continue;
    ++row.depth;
    parents = rows[above]->layers.size();
    rest = std::string_view(path).substr(other.size() + 1);
  }
  const std::string& type = rows[at]->type;
  row.name = text::printable(rest) + (type.empty() || type == rest ? "" : ": ") +
             (type == rest ? "" : text::printable(type)) + members_text(*rows[at], parents);
  return row;
}

}  // namespace

std::vector<LayerTreeRow> layer_tree(const FoldedRows& rows, std::size_t top) {
  const FoldedRows shown = LayerTree(rows).largest(top);
  std::vector<LayerTreeRow> tree;
  for (std::size_t at = 0; at < shown.size(); ++at) tree.push_back(tree_row(shown, at));
  return tree;
}

}  // namespace plimsoll::exporters
