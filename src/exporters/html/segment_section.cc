#include <algorithm>
#include <string>

#include "base/units.h"
#include "charts/frame.h"
#include "charts/segments.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

// Free memory between blocks of several lines counts for each of those lines, so the sum of the
// rows may exceed the pinned bytes.
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

// What would become releasable if a single block were freed.
void write_lone_blocks(Markup& html, const std::vector<report::LoneBlock>& blocks,
                       std::uint64_t pinned_bytes) {
  if (pinned_bytes == 0) return;
  html.open("div", {{"class", "panel"}});
  html.open("div", {{"class", "head"}}).element("h3", {}, "Blocks that pin memory alone").close();
  if (blocks.empty()) {
    html.element("p", {{"class", "sub"}},
                 "None: two blocks or more pin each of these segments, so freeing a single one "
                 "releases nothing.");
    html.close();
    return;
  }
  html.open("div", {{"class", "scroll"}}).open("table", {{"data-table", "lone-blocks"}});
  html.open("thead").open("tr").element("th", {{"scope", "col"}}, "line that allocated the block");
  for (const char* const name : {"block", "in a segment of", "would become releasable"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  html.close().close().open("tbody");
  for (const report::LoneBlock& block : blocks) {
    html.open("tr", {{"data-key", page::shortened(block.line, kLongestName)},
                     {"data-bytes", std::to_string(block.pinned_bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}});
    write_place(html, block.line);
    html.close();
    for (const std::uint64_t bytes :
         {block.requested_bytes, block.segment_bytes, block.pinned_bytes}) {
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
  write_fixed_point(html, "The segments", failures.empty() ? "at the end" : "when memory ran out");
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
  if (!data.are_unused.empty()) fact(charts::kNotUsedAgain, data.unused_bytes);
  fact("pinned", data.pinned_bytes);
  fact("releasable", data.releasable_bytes);
  if (data.private_bytes > 0) fact("free in private pools", data.private_bytes);
  html.close().close();
  const report::Fragmentation& at_end = view.report.fragmentation;
  write_pinning(html, failures.empty() ? at_end.pinning_lines : failures.back().pinning_lines);
  write_lone_blocks(html, failures.empty() ? at_end.lone_blocks : failures.back().lone_blocks,
                    data.pinned_bytes);
  html.close().close();
}

}  // namespace plimsoll::exporters::html
