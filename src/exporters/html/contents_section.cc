#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/units.h"
#include "charts/layers.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/layer_tree.h"
#include "exporters/point_text.h"
#include "page/escape.h"
#include "report/rest_row.h"

namespace plimsoll::exporters::html {
namespace {

using model::Dimension;
using page::Paint;
using Rows = std::vector<report::GroupRow>;

struct ContentsTable {
  Dimension by;
  const Rows report::Tables::* rows;
  const char* name;  // of the table and of its column
  const char* title;
};

constexpr std::array kContents = {
    ContentsTable{Dimension::kCategory, &report::Tables::by_category, "category", "By category"},
    ContentsTable{Dimension::kLayer, &report::Tables::by_layer, "layer",
                  "By layer, without the layers inside"},
    ContentsTable{Dimension::kLine, &report::Tables::by_line, "line", "By line"},
    ContentsTable{Dimension::kOperator, &report::Tables::by_operator, "operator", "By operator"},
    ContentsTable{Dimension::kTensor, &report::Tables::by_tensor, "tensor", "By tensor"},
};

// The paint of the category that takes the most of the bytes.
Paint main_paint(const report::LayerBytes& bytes) {
  const std::array<std::pair<std::uint64_t, Paint>, 4> parts = {
      {{bytes.activation_bytes, Paint::kActivation},
       {bytes.parameter_bytes, Paint::kParameter},
       {bytes.gradient_bytes, Paint::kGradient},
       {bytes.optimizer_state_bytes, Paint::kOptimizerState}}};
  std::uint64_t known = 0;
  for (const auto& part : parts) known += part.first;
  const auto most = std::ranges::max_element(parts);
  return most->first >= bytes.bytes - std::min(bytes.bytes, known) ? most->second : Paint::kOther;
}

// A collapsed list of the lines inside the packages that a line calls.
void write_inner_lines(Markup& html, const std::vector<report::InnerLineRow>& rows) {
  if (rows.empty()) return;
  html.open("details", {{"class", "inside"}});
  html.element("summary", {}, "By the line inside the packages that it calls");
  html.open("ul");
  for (const report::InnerLineRow& row : rows) {
    html.open("li", {{"data-inner", page::shortened(row.line, kLongestName)},
                     {"data-size", std::to_string(row.bytes)}});
    html.element("span", {{"class", "n"}, {"title", base::format_count(row.bytes) + " bytes"}},
                 bytes_text(row.bytes));
    html.open("span");
    write_place(html, row.line);
    html.close().close();
  }
  html.close().close();
}

void write_row(Markup& html, const std::string& key, std::uint64_t bytes, std::uint64_t count,
               const report::PointInTime& point, Paint paint, Dimension by,
               const std::string& source = {},
               const std::vector<report::InnerLineRow>& inside = {}) {
  const bool is_rest = report::groups_in_rest(key).has_value();
  const bool is_place = by == Dimension::kLine;
  const bool is_category = by == Dimension::kCategory;
  const std::uint64_t total = point.live_bytes + older_bytes(point);
  const double share = total == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(total);
  html.open("tr", {{"data-key", page::shortened(key, kLongestName)},
                   {"data-bytes", std::to_string(bytes)},
                   {"class", is_rest ? "rest" : ""}});
  html.open(
      "th",
      {{"scope", "row"}, {"class", "key"}, {"data-exact", page::shortened(key, kLongestName)}});
  html.raw(swatch(paint));
  if (is_place) {
    write_place(html, key);
    if (!source.empty()) {
      html.open("span", {{"class", "source"}});
      write_breakable(html, page::shortened(source, 120));
      html.close();
    }
    write_inner_lines(html, inside);
  } else {
    write_breakable(html, is_category ? spaced(key) : key);
  }
  html.close();
  write_bytes(html, bytes);
  html.open("td", {{"class", "b"}}).raw(bar(share, paint)).close();
  html.element("td", {{"class", "n"}, {"data-value", std::to_string(bytes)}},
               base::format_percent(share));
  html.element("td", {{"class", "n count"}, {"data-value", std::to_string(count)}},
               count > 0 ? base::format_count(count) : "");
  html.close();
}

void write_table(Markup& html, const DeviceView& view, const ContentsTable& what) {
  const auto rows = rows_of(view.input.report.tables.*what.rows, view.report);
  if (rows.empty() && view.table(what.by) == nullptr) return;
  // The tree of layers is above the tables, so this table starts collapsed.
  const bool is_folded = what.by == Dimension::kLayer;
  html.open("div", {{"class", "panel"}});
  if (is_folded) {
    html.open("details").element("summary", {}, what.title);
  } else {
    html.open("div", {{"class", "head"}}).element("h3", {}, what.title).close();
  }
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", what.name}, {"data-fold", ""}});
  html.open("thead").open("tr");
  html.element("th", {{"scope", "col"}, {"data-sort", "text"}}, what.name);
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "bytes");
  html.element("td", {{"class", "b"}}, "");  // above the bars, which repeat the shares
  html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, "share");
  html.element("th", {{"scope", "col"}, {"class", "n count"}, {"data-sort", "number"}}, "count");
  html.close().close().open("tbody");
  const report::PointInTime& point = *view.point;
  if (const std::uint64_t older = older_bytes(point); older > 0) {
    write_row(html, kNotInFile, older, 0, point, Paint::kUnknown, Dimension::kTensor);
  }
  for (const report::GroupRow* row : rows) {
    write_row(
        html, row->key, row->bytes, row->count, point, view.paint_of(what.by, row->key), what.by,
        what.by == Dimension::kLine && view.input.source_of ? view.input.source_of(row->key) : "",
        row->inside);
  }
  html.close().close().close().close();
  if (is_folded) html.close();
}

// The largest layers with the layers inside them; equal siblings share a row.
void write_layer_tree(Markup& html, const DeviceView& view) {
  const auto rows =
      layer_tree(rows_of(view.input.report.tables.folded_layers, view.report), kMostLayers);
  if (rows.empty()) return;
  const report::PointInTime& point = *view.point;
  const auto total = static_cast<double>(point.live_bytes + older_bytes(point));
  html.open("div", {{"class", "panel"}});
  html.open("div", {{"class", "head"}}).element("h3", {}, "By layer");
  html.element("span", {{"class", "sub"}}, "with the layers inside").close();
  write_fixed_point(html, "The layers", place_in_time(point));
  write_chart(html, "Layers", "l" + std::to_string(view.number), {{"every", 420, 0}},
              [&](const charts::ChartOptions& options) {
                return charts::layers(view.input.report, view.report.device, options);
              });
  html.open("div", {{"class", "scroll"}}).open("table", {{"data-table", "layers"}});
  html.open("thead").open("tr").element("th", {{"scope", "col"}}, "layer");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "bytes");
  html.element("td", {{"class", "b"}}, "");  // above the bars, which repeat the shares
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "share");
  html.element("th", {{"scope", "col"}, {"class", "n count"}}, "peak").close().close();
  html.open("tbody");
  for (const LayerTreeRow& row : rows) {
    const report::LayerBytes& inside = row.layer->inclusive;
    html.open("tr", {{"class", "depth-" + std::to_string(row.depth)},
                     {"data-key", page::shortened(row.layer->layer, kLongestName)},
                     {"data-bytes", std::to_string(inside.bytes)}});
    html.open("th", {{"scope", "row"},
                     {"class", "key"},
                     {"title", page::shortened(row.layer->layer, kLongestName)}});
    write_breakable(html, row.name);
    html.close();
    const double share = total > 0 ? static_cast<double>(inside.bytes) / total : 0;
    write_bytes(html, inside.bytes);
    html.open("td", {{"class", "b"}}).raw(bar(share, main_paint(inside))).close();
    html.element("td", {{"class", "n"}}, base::format_percent(share));
    const std::string of_one = row.layer->layers.size() > 1 ? "each " : "";
    html.element("td", {{"class", "n count"}}, of_one + bytes_text(inside.peak_bytes)).close();
  }
  html.close().close().close().close();
}

// One bar of all categories at the point.
std::string composition_bar(const DeviceView& view) {
  const report::PointInTime& point = *view.point;
  const auto total = static_cast<double>(point.live_bytes + older_bytes(point));
  const auto rows = rows_of(view.input.report.tables.by_category, view.report);
  if (total <= 0 || rows.empty()) return {};
  std::string svg =
      "<svg viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\" aria-hidden=\"true\">";
  double x = 0;
  const auto add = [&](std::uint64_t bytes, Paint paint) {
    const double width = static_cast<double>(bytes) / total * 1000;
    svg += "<rect x=\"" + number_text(x) + "\" width=\"" + number_text(std::max(0.0, width - 1)) +
           "\" height=\"18\" class=\"p-" + std::string(page::name_of(paint)) + "\"/>";
    x += width;
  };
  add(older_bytes(point), Paint::kUnknown);
  for (const report::GroupRow* row : rows) {
    add(row->bytes, view.paint_of(Dimension::kCategory, row->key));
  }
  return svg + "</svg>";
}

}  // namespace

void write_contents(Markup& html, const DeviceView& view) {
  if (view.point == nullptr || (view.point->live_count == 0 && view.tables.empty())) return;
  html.open("section",
            {{"data-section", "contents"}, {"id", "contents-" + std::to_string(view.number)}});
  html.open("div", {{"class", "head"}}).element("h2", {}, "What fills memory");
  html.open("span", {{"class", "sub"}, {"data-place", ""}});
  write_breakable(html, point_place(view.report, *view.point));
  html.close().close();
  if (view.point->unexplained_bytes < 0) {
    html.element("p", {{"class", "sub"}},
                 "The running total is " + bytes_text(magnitude(view.point->unexplained_bytes)) +
                     " less than these: events and blocks do not agree in this file.");
  }
  if (const std::string composition = composition_bar(view); !composition.empty()) {
    html.open("div", {{"class", "stack"}, {"data-composition", ""}}).raw(composition).close();
  }
  html.open("div", {{"class", "panels"}});
  for (const ContentsTable& what : kContents) {
    if (what.by == Dimension::kLayer) write_layer_tree(html, view);
    write_table(html, view, what);
  }
  html.close().close();
}

}  // namespace plimsoll::exporters::html
