#include "exporters/terminal/native_tables.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "exporters/terminal/point_text.h"
#include "exporters/terminal/words.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

using enum text::TextTable::Align;

constexpr std::size_t kGap = 2;           // before each column
constexpr std::size_t kColumnWidth = 12;  // of a number and the gap before it
constexpr std::size_t kNameWidth = 24;    // minimum width of layer names
constexpr std::size_t kCategoriesShown = 4;

std::string bytes_or_dash(std::uint64_t bytes) { return bytes == 0 ? "-" : bytes_text(bytes); }

// ---- layers ---------------------------------------------------------------------------------

std::string_view parent_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Rows by path, and each one's children, largest first.
class LayerTree {
 public:
  explicit LayerTree(const std::vector<const report::LayerRow*>& rows) {
    for (const report::LayerRow* row : rows) by_path_.emplace(row->layer, row);
    for (const report::LayerRow* row : rows) {
      if (row->inclusive.bytes == 0) continue;
      const std::string_view parent = parent_path(row->layer);
      const bool is_root = row->layer.empty() || parent.empty() || !by_path_.contains(parent);
      (is_root ? roots_ : children_[parent]).push_back(row);
    }
    sort(roots_);
    for (auto& [path, children] : children_) sort(children);
  }

  // The `top` largest rows, each after its parent.
  std::vector<const report::LayerRow*> largest(std::size_t top) const {
    std::vector<const report::LayerRow*> open = roots_;
    std::vector<const report::LayerRow*> chosen;
    while (!open.empty() && chosen.size() < top) {
      const auto next = std::ranges::max_element(open, is_less);
      chosen.push_back(*next);
      open.erase(next);
      const auto children = children_.find(chosen.back()->layer);
      if (chosen.back()->layer.empty() || children == children_.end()) continue;
      open.insert(open.end(), children->second.begin(), children->second.end());
    }
    std::vector<const report::LayerRow*> ordered;
    for (const report::LayerRow* root : roots_) add_in_order(root, chosen, ordered);
    return ordered;
  }

 private:
  // By bytes, descending, then by path.
  static bool is_less(const report::LayerRow* a, const report::LayerRow* b) {
    if (a->inclusive.bytes != b->inclusive.bytes) return a->inclusive.bytes < b->inclusive.bytes;
    return a->layer > b->layer;
  }
  static void sort(std::vector<const report::LayerRow*>& rows) {
    std::ranges::sort(
        rows, [](const report::LayerRow* a, const report::LayerRow* b) { return is_less(b, a); });
  }

  void add_in_order(const report::LayerRow* row, const std::vector<const report::LayerRow*>& chosen,
                    std::vector<const report::LayerRow*>& out) const {
    if (std::ranges::find(chosen, row) == chosen.end()) return;
    out.push_back(row);
    const auto children = children_.find(row->layer);
    if (row->layer.empty() || children == children_.end()) return;
    for (const report::LayerRow* child : children->second) add_in_order(child, chosen, out);
  }

  std::map<std::string_view, const report::LayerRow*> by_path_;
  std::map<std::string_view, std::vector<const report::LayerRow*>> children_;
  std::vector<const report::LayerRow*> roots_;
};

struct LayerColumn {
  const char* name;
  std::uint64_t report::LayerBytes::* bytes;
};

// The columns with figures, in display order.
std::vector<LayerColumn> layer_columns(const std::vector<const report::LayerRow*>& rows) {
  std::vector<LayerColumn> columns = {{"total", &report::LayerBytes::bytes},
                                      {"forward", &report::LayerBytes::forward_bytes},
                                      {"backward", &report::LayerBytes::backward_bytes},
                                      {"optimizer", &report::LayerBytes::optimizer_bytes},
                                      {"other", &report::LayerBytes::other_bytes},
                                      {"peak", &report::LayerBytes::peak_bytes}};
  std::erase_if(columns, [&](const LayerColumn& column) {
    return std::ranges::none_of(
        rows, [&](const report::LayerRow* row) { return row->inclusive.*column.bytes > 0; });
  });
  return columns;
}

bool is_phase(const LayerColumn& column) {
  return column.bytes != &report::LayerBytes::bytes &&
         column.bytes != &report::LayerBytes::peak_bytes;
}

// The legend of the tree: its columns.
std::string tree_heading(const std::vector<LayerColumn>& columns) {
  std::string text = "; each with the layers inside it";
  if (std::ranges::any_of(columns, is_phase)) text += ", by the phase that allocated it";
  const bool has_peak = !columns.empty() && columns.back().bytes == &report::LayerBytes::peak_bytes;
  return has_peak ? text + ", and its own peak" : text;
}

// "  conv" under "Net.down.0": the path below the nearest row above that contains it.
std::string layer_name(const std::vector<const report::LayerRow*>& rows, std::size_t at) {
  const std::string& path = rows[at]->layer;
  if (path.empty()) return "[no layer]";
  std::string_view rest = path;
  std::size_t depth = 0;
  for (std::size_t above = 0; above < at; ++above) {
    const std::string& other = rows[above]->layer;
    const bool holds = !other.empty() && path.size() > other.size() && path.starts_with(other) &&
                       path[other.size()] == '.';
    if (!holds) continue;
    ++depth;
    rest = std::string_view(path).substr(other.size() + 1);
  }
  return std::string(2 * depth, ' ') + text::printable(rest);
}

// Omits all phases if they do not fit next to the names, because a subset would not add up.
void fit_phases(std::vector<LayerColumn>& columns, const std::vector<const report::LayerRow*>& rows,
                const std::vector<std::string>& names, std::size_t width) {
  std::size_t widest_name = 0;
  for (const std::string& name : names)
    widest_name = std::max(widest_name, text::display_width(name));
  std::size_t needed = kGap + std::min(widest_name, kNameWidth);
  for (const LayerColumn& column : columns) {
    std::size_t widest = text::display_width(column.name);
    for (const report::LayerRow* row : rows) {
      widest = std::max(widest, text::display_width(bytes_or_dash(row->inclusive.*column.bytes)));
    }
    needed += kGap + widest;
  }
  if (needed > width) std::erase_if(columns, is_phase);
}

// ---- kept for backward ----------------------------------------------------------------------

std::string share_table(const std::vector<const report::GroupRow*>& rows, const char* key,
                        std::size_t top, std::size_t width, text::Color color) {
  text::TextTable table({{"bytes"}, {"share"}, {"count"}, {"largest"}, {key, kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    table.add_row({bytes_text(rows[i]->bytes), base::format_percent(rows[i]->share),
                   base::format_count(rows[i]->count), bytes_text(rows[i]->largest_bytes),
                   text::printable(rows[i]->key)});
  }
  return table.empty() ? "" : table.to_text(width, color);
}

std::string saved_heading(const report::DeviceReport& device, const report::SavedRow& row) {
  std::string text = "Kept for backward on " + device_name(device) + ": " + bytes_text(row.bytes) +
                     " in " + base::format_count(row.count) +
                     (row.count == 1 ? " allocation" : " allocations") + ", of " +
                     bytes_text(row.live_bytes) + " live when backward began";
  if (row.step) text += " in step " + base::format_count(*row.step);
  text += ", " + point_text(device, row.event, row.time_ns);
  if (row.backwards > 1) {
    text += row.is_of_peak ? "; the backward of the peak, of " : "; the most of ";
    text += base::format_count(row.backwards);
    text += row.is_of_peak ? "" : " backwards";
  }
  return text;
}

// ---- steps ----------------------------------------------------------------------------------

// The categories with most bytes at the ends of these steps.
std::vector<std::string> largest_categories(const std::vector<const report::StepRow*>& rows) {
  std::map<std::string, std::uint64_t> most;
  for (const report::StepRow* row : rows) {
    for (const report::CategoryBytes& each : row->categories) {
      most[each.category] = std::max(most[each.category], each.end_bytes);
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, bytes] : most) {
    if (bytes > 0) names.push_back(name);
  }
  std::ranges::stable_sort(names,
                           [&](const auto& a, const auto& b) { return most.at(a) > most.at(b); });
  names.resize(std::min(names.size(), kCategoriesShown));
  return names;
}

std::uint64_t end_bytes(const report::StepRow& row, const std::string& category) {
  const auto found = std::ranges::find(row.categories, category, &report::CategoryBytes::category);
  return found == row.categories.end() ? 0 : found->end_bytes;
}

}  // namespace

LayerTreeText layer_tree(const report::Report& report, const report::DeviceReport& device,
                         std::size_t top, std::size_t width, text::Color color) {
  const auto all = rows_of(report.tables.layers, device);
  if (all.empty()) return {};
  const std::vector<const report::LayerRow*> rows = LayerTree(all).largest(top);
  std::vector<LayerColumn> columns = layer_columns(rows);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) names.push_back(layer_name(rows, i));
  fit_phases(columns, rows, names, width);
  std::vector<text::TextTable::Column> heads;
  for (const LayerColumn& column : columns) heads.push_back({column.name});
  heads.push_back({"layer", kWords});
  text::TextTable table(std::move(heads));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const LayerColumn& column : columns) {
      cells.push_back(bytes_or_dash(rows[i]->inclusive.*column.bytes));
    }
    cells.push_back(names[i]);
    table.add_row(std::move(cells));
  }
  return {tree_heading(columns), table.to_text(width, color)};
}

std::string saved_table(const report::Report& report, const report::DeviceReport& device,
                        std::size_t top, std::size_t width, text::Color color) {
  const auto rows = rows_of(report.tables.saved, device);
  if (rows.empty()) return {};
  std::string out = bold_line(text::wrap(saved_heading(device, *rows.front()), 2, width), color);
  out += share_table(rows_of(report.tables.saved_by_operator, device), "created by operator", top,
                     width, color);
  out += share_table(rows_of(report.tables.saved_by_layer, device), "created in layer", top, width,
                     color);
  return out;
}

std::string step_table(const report::Report& report, const report::DeviceReport& device,
                       std::size_t top, std::size_t width, text::Color color) {
  auto rows = rows_of(report.tables.steps, device);
  if (rows.empty()) return {};
  std::string heading =
      "Steps of " + device_name(device) + ": the peak of each, and what was live when it ended";
  if (device.allocated) heading += ", in allocated bytes";
  if (rows.size() > top) {
    heading += " (the last " + std::to_string(top) + " of " + base::format_count(rows.size()) + ")";
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(top));
  }
  auto categories = largest_categories(rows);
  while (!categories.empty() && (categories.size() + 3) * kColumnWidth + kNameWidth > width) {
    categories.pop_back();
  }
  std::vector<text::TextTable::Column> heads = {{"step"}, {"peak"}, {"at its end"}};
  for (const std::string& category : categories) {
    std::string name = text::printable(category);
    std::ranges::replace(name, '_', ' ');
    heads.push_back({text::shorten_place(name, 2 * kColumnWidth)});
  }
  text::TextTable table(std::move(heads));
  for (const report::StepRow* row : rows) {
    std::vector<std::string> cells = {base::format_count(row->step) + (row->is_complete ? "" : "*"),
                                      bytes_text(row->peak_bytes), bytes_text(row->end_bytes)};
    for (const std::string& category : categories) {
      cells.push_back(bytes_or_dash(end_bytes(*row, category)));
    }
    table.add_row(std::move(cells));
  }
  std::string out = bold_line(text::wrap(heading, 2, width), color) + table.to_text(width, color);
  if (!rows.back()->is_complete) {
    out += text::styled("  * had not ended when the recording did\n", text::Style::kDim, color);
  }
  return out;
}

}  // namespace plimsoll::exporters::terminal
