#include <algorithm>
#include <string>

#include "base/units.h"
#include "charts/segments.h"
#include "exporters/html/sections.h"
#include "exporters/words.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

// Free memory between blocks of several lines counts for each of them, so the rows may sum to more
// than is pinned.
void write_pinning(Markup& html, const std::vector<report::PinningLine>& lines) {
  if (lines.empty()) return;
  html.open("div", {{"class", "panel"}}).open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "pinning"}, {"data-fold", ""}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}}, "pinned by");
  for (const char* const name : {"blocks", "block bytes", "pinned bytes", "pinned alone"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  html.close().close().open("tbody");
  for (const report::PinningLine& line : lines) {
    html.open("tr", {{"data-key", page::shortened(line.line, kLongestName)},
                     {"data-bytes", std::to_string(line.pinned_cached_bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}});
    write_place(html, line.line);
    html.close();
    html.element("td", {{"class", "n"}, {"data-value", std::to_string(line.blocks)}},
                 base::format_count(line.blocks));
    for (const std::uint64_t bytes :
         {line.block_bytes, line.pinned_cached_bytes, line.alone_cached_bytes}) {
      write_bytes(html, bytes);
    }
    html.close();
  }
  html.close().close().close().close();
}

}  // namespace

void write_segments(Markup& html, const DeviceView& view) {
  if (view.report.segments == 0 && view.report.reserved.peak_bytes <= 0) return;
  // When memory ran out, or at the end.
  const auto& failures = view.report.oom_details;
  const std::int64_t point = failures.empty()
                                 ? static_cast<std::int64_t>(view.device.events.size()) - 1
                                 : static_cast<std::int64_t>(failures.back().event);
  const charts::SegmentsData data = charts::segments_data(
      view.input.trace, view.device, view.input.lines, point, model::Dimension::kLine);
  if (data.segments.empty()) return;
  html.open("section",
            {{"data-section", "segments"}, {"id", "segments-" + std::to_string(view.number)}});
  write_head(html, failures.empty() ? "Segments at the end" : "Segments when memory ran out",
             base::counted(data.segments.size(), "segment") +
                 "; area is bytes, colors are the lines that allocated the blocks");
  write_chart(html, "Segments", "s" + std::to_string(view.number),
              {{"broad", 1360, 0}, {"narrow", 400, 0}}, [&](charts::ChartOptions options) {
                options.has_legend = true;
                return charts::segments(data, options);
              });
  html.open("div", {{"class", "panels"}});
  html.open("div", {{"class", "panel"}}).open("dl", {{"class", "facts"}});
  const auto fact = [&](const char* name, std::uint64_t bytes) {
    html.element("dt", {}, name)
        .element("dd",
                 {{"data-bytes", std::to_string(bytes)},
                  {"title", base::format_count(bytes) + " bytes"}},
                 bytes_text(bytes));
  };
  fact("reserved", data.reserved_bytes);
  fact("in blocks", data.block_bytes);
  fact("pinned", data.pinned_bytes);
  fact("releasable", data.releasable_bytes);
  if (data.private_bytes > 0) fact("free in private pools", data.private_bytes);
  html.close().close();
  write_pinning(html, failures.empty() ? view.report.fragmentation.pinning_lines
                                       : failures.back().pinning_lines);
  html.close().close();
}

}  // namespace plimsoll::exporters::html
