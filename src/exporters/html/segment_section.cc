#include <algorithm>
#include <string>

#include "base/units.h"
#include "exporters/html/sections.h"
#include "exporters/words.h"

namespace plimsoll::exporters::html {
namespace {

void write_pinning(Markup& html, const report::DeviceReport& device) {
  const report::Fragmentation& where = device.fragmentation;
  if (where.pinning_lines.empty()) return;
  html.open("div", {{"class", "panel"}}).open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "pinning"}, {"data-fold", ""}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}}, "pinned by");
  for (const char* const name : {"blocks", "their bytes", "pin"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}, {"data-sort", "number"}}, name);
  }
  html.close().close().open("tbody");
  for (const report::PinningLine& line : where.pinning_lines) {
    html.open("tr",
              {{"data-key", line.line}, {"data-bytes", std::to_string(line.pinned_cached_bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}});
    write_place(html, line.line);
    html.close();
    html.element("td", {{"class", "n"}, {"data-value", std::to_string(line.blocks)}},
                 base::format_count(line.blocks));
    for (const std::uint64_t bytes : {line.block_bytes, line.pinned_cached_bytes}) {
      write_bytes(html, bytes);
    }
    html.close();
  }
  html.close().close().close().close();
}

}  // namespace

void write_segments(Markup& html, const DeviceView& view) {
  if (view.report.segments == 0) return;
  const report::Fragmentation& where = view.report.fragmentation;
  html.open("section",
            {{"data-section", "segments"}, {"id", "segments-" + std::to_string(view.number)}});
  write_head(html, "Segments at the end",
             base::counted(view.report.segments, "segment") +
                 "; area is bytes, hatched is free but pinned by a live block, plain is free and "
                 "could be released");
  write_segment_chart(html, view);
  html.open("div", {{"class", "panels"}});
  html.open("div", {{"class", "panel"}}).open("dl", {{"class", "facts"}});
  const auto fact = [&](const char* name, std::uint64_t bytes) {
    html.element("dt", {}, name)
        .element("dd",
                 {{"data-bytes", std::to_string(bytes)},
                  {"title", base::format_count(bytes) + " bytes"}},
                 bytes_text(bytes));
  };
  fact("reserved", magnitude(std::max<std::int64_t>(0, view.report.reserved.end_bytes)));
  fact("allocated", view.report.allocated_bytes_end);
  fact("pinned", where.pinned_bytes);
  fact("could be released", where.releasable_bytes);
  fact("largest free block", where.largest_free_bytes);
  html.close().close();
  write_pinning(html, view.report);
  html.close().close();
}

}  // namespace plimsoll::exporters::html
