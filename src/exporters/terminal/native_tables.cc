#include "exporters/terminal/native_tables.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/layer_tree.h"
#include "exporters/point_text.h"
#include "exporters/terminal/devices.h"
#include "report/rest_row.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

using enum text::TextTable::Align;

constexpr std::size_t kGap = 2;           // before each column
constexpr std::size_t kColumnWidth = 12;  // a number and the gap before it
constexpr std::size_t kNameWidth = 24;    // minimum width of layer names
constexpr std::size_t kCategoriesShown = 4;

std::string bytes_or_dash(std::uint64_t bytes) { return bytes == 0 ? "-" : bytes_text(bytes); }

// ---- layers ---------------------------------------------------------------------------------

using report::FoldedLayerRow;
using FoldedRows = std::vector<const FoldedLayerRow*>;

struct LayerColumn {
  const char* name;
  std::uint64_t report::LayerBytes::* bytes;
};

// The columns that have figures, in display order.
std::vector<LayerColumn> layer_columns(const FoldedRows& rows) {
  std::vector<LayerColumn> columns = {{"total", &report::LayerBytes::bytes},
                                      {"forward", &report::LayerBytes::forward_bytes},
                                      {"backward", &report::LayerBytes::backward_bytes},
                                      {"optimizer", &report::LayerBytes::optimizer_bytes},
                                      {"other", &report::LayerBytes::other_bytes},
                                      {"peak", &report::LayerBytes::peak_bytes}};
  std::erase_if(columns, [&](const LayerColumn& column) {
    return std::ranges::none_of(
        rows, [&](const FoldedLayerRow* row) { return row->inclusive.*column.bytes > 0; });
  });
  return columns;
}

bool is_phase(const LayerColumn& column) {
  return column.bytes != &report::LayerBytes::bytes &&
         column.bytes != &report::LayerBytes::peak_bytes;
}

// Of equal layers, the peak is that of one, unlike the other figures, which are sums.
std::string cell_text(const FoldedLayerRow& row, const LayerColumn& column) {
  const std::uint64_t bytes = row.inclusive.*column.bytes;
  const bool is_of_one = column.bytes == &report::LayerBytes::peak_bytes && row.layers.size() > 1;
  return (is_of_one && bytes > 0 ? "each " : "") + bytes_or_dash(bytes);
}

// The legend of the tree, which names its columns.
std::string tree_heading(const std::vector<LayerColumn>& columns, const FoldedRows& rows) {
  std::string text = "; each with the layers inside it";
  if (std::ranges::any_of(columns, is_phase)) text += ", by the phase that allocated it";
  const bool has_peak = !columns.empty() && columns.back().bytes == &report::LayerBytes::peak_bytes;
  if (!has_peak) return text;
  const bool has_sums =
      std::ranges::any_of(rows, [](const auto* row) { return row->layers.size() > 1; });
  return text + ", and its own peak" + (has_sums ? " (of equal layers, the largest of one)" : "");
}

// Omits all phases if they do not fit next to the names, because a subset would not add up.
void fit_phases(std::vector<LayerColumn>& columns, const FoldedRows& rows,
                const std::vector<std::string>& names, std::size_t width) {
  std::size_t widest_name = 0;
  for (const std::string& name : names)
    widest_name = std::max(widest_name, text::display_width(name));
  std::size_t needed = kGap + std::min(widest_name, kNameWidth);
  for (const LayerColumn& column : columns) {
    std::size_t widest = text::display_width(column.name);
    for (const FoldedLayerRow* row : rows) {
      widest = std::max(widest, text::display_width(cell_text(*row, column)));
    }
    needed += kGap + widest;
  }
  if (needed > width) std::erase_if(columns, is_phase);
}

// ---- saved for backward ---------------------------------------------------------------------

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

// What equal layers created is one row, as in the table of layers. "each" has their mean.
std::string saved_by_layer(const report::Report& report, const report::DeviceReport& device,
                           const report::SavedRow& saved, std::size_t top, std::size_t width,
                           text::Color color) {
  FoldedRows rows = rows_of(report.tables.folded_layers, device);
  std::erase_if(rows, [](const FoldedLayerRow* row) { return row->own.saved_bytes == 0; });
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const FoldedLayerRow* row) { return row->own.saved_bytes; });
  text::TextTable table({{"bytes"}, {"share"}, {"layers"}, {"each"}, {"created in layer", kWords}});
  const auto add = [&](std::uint64_t bytes, std::size_t layers, const std::string& name) {
    const double share = static_cast<double>(bytes) / static_cast<double>(saved.bytes);
    table.add_row({bytes_text(bytes), base::format_percent(share), base::format_count(layers),
                   layers > 1 ? bytes_text(bytes / layers) : "", name});
  };
  const std::size_t kept = rows.size() == top + 1 ? rows.size() : std::min(top, rows.size());
  std::uint64_t rest_bytes = 0;
  std::size_t rest_layers = 0;
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const FoldedLayerRow& row = *rows[at];
    if (at < kept) {
      add(row.own.saved_bytes, row.layers.size(),
          row.layer.empty() ? "[no layer]" : text::printable(row.layer));
    } else {
      rest_bytes += row.own.saved_bytes;
      rest_layers += row.layers.size();
    }
  }
  if (rest_layers > 0) add(rest_bytes, rest_layers, report::rest_key(rows.size() - kept));
  return table.empty() ? "" : table.to_text(width, color);
}

std::string saved_heading(const report::DeviceReport& device, const report::SavedRow& row) {
  std::string text = "Saved for backward on " + device_name(device) + ": " + bytes_text(row.bytes) +
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

// The categories with the most bytes at the ends of these steps.
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
  const auto all = rows_of(report.tables.folded_layers, device);
  if (all.empty()) return {};
  FoldedRows rows;
  std::vector<std::string> names;
  for (const LayerTreeRow& row : exporters::layer_tree(all, top)) {
    rows.push_back(row.layer);
    names.push_back(std::string(2 * row.depth, ' ') + row.name);
  }
  std::vector<LayerColumn> columns = layer_columns(rows);
  fit_phases(columns, rows, names, width);
  std::vector<text::TextTable::Column> heads;
  for (const LayerColumn& column : columns) heads.push_back({column.name});
  heads.push_back({"layer", kWords});
  text::TextTable table(std::move(heads));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> cells;
    for (const LayerColumn& column : columns) {
      cells.push_back(cell_text(*rows[i], column));
    }
    cells.push_back(names[i]);
    table.add_row(std::move(cells));
  }
  return {tree_heading(columns, rows), table.to_text(width, color)};
}

std::string saved_table(const report::Report& report, const report::DeviceReport& device,
                        std::size_t top, std::size_t width, text::Color color) {
  const auto rows = rows_of(report.tables.saved, device);
  if (rows.empty()) return {};
  std::string out = bold_line(text::wrap(saved_heading(device, *rows.front()), 2, width), color);
  out += share_table(rows_of(report.tables.saved_by_operator, device), "created by operator", top,
                     width, color);
  return out + saved_by_layer(report, device, *rows.front(), top, width, color);
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
    std::vector<std::string> cells = {
        row->is_complete ? base::format_count(row->step) : report::kAfterLastStepShort,
        bytes_text(row->peak_bytes), bytes_text(row->end_bytes)};
    for (const std::string& category : categories) {
      cells.push_back(bytes_or_dash(end_bytes(*row, category)));
    }
    table.add_row(std::move(cells));
  }
  std::string out = bold_line(text::wrap(heading, 2, width), color) + table.to_text(width, color);
  if (!rows.back()->is_complete) {
    out += text::styled("  after: events after the last step; their step had not ended\n",
                        text::Style::kDim, color);
  }
  return out;
}

}  // namespace plimsoll::exporters::terminal
