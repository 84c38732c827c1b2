// The numbers of a device: totals, fragmentation, the processes that use it, and each failure.

#include <algorithm>
#include <string>

#include "base/units.h"
#include "exporters/device_facts.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {
namespace {

using page::Paint;

void write_totals_table(Markup& html, const report::DeviceReport& device) {
  const std::vector<TotalsRow> rows = totals_rows(device);
  if (rows.empty()) {
    html.element("p", {{"class", "sub"}}, "The message does not state them.");
    return;
  }
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "totals"}}).open("thead").open("tr");
  html.element("th", {{"scope", "col"}}, "bytes");
  for (const char* const name : {"start", "peak", "end"}) {
    html.element("th", {{"scope", "col"}, {"class", "n"}}, name);
  }
  html.element("th", {{"scope", "col"}}, "peak reached at");
  html.close().close().open("tbody");
  for (const TotalsRow& row : rows) {
    html.open("tr").element("th", {{"scope", "row"}}, row.name);
    for (const std::string* const cell : {&row.start, &row.peak, &row.end}) {
      html.element("td", {{"class", "n"}}, *cell);
    }
    html.element("td", {}, row.reached_at).close();
  }
  html.close().close().close();
}

Paint paint_of_part(const report::BarPart& part) {
  if (part.kind == "tensors") return Paint::kActivation;
  if (part.kind == "cached") return Paint::kBuffer;
  if (part.kind == "context") return Paint::kOptimizerState;
  if (part.kind == "outside") return Paint::kActivationGradient;
  if (part.kind == "process") return Paint::kGradient;
  return Paint::kOther;
}

// The users of the whole device, as one bar.
void write_bar(Markup& html, const report::DeviceBarReport& bar_report) {
  const auto total = static_cast<double>(std::max(bar_report.total_bytes, bar_report.used_bytes));
  if (total <= 0) return;
  std::string svg =
      "<svg viewBox=\"0 0 1000 18\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\"><rect width=\"1000\" height=\"18\" class=\"p-line\"/>";
  double x = 0;
  for (const report::BarPart& part : bar_report.parts) {
    const double width = static_cast<double>(std::max<std::int64_t>(0, part.bytes)) / total * 1000;
    svg += "<rect x=\"" + number_text(x) + "\" width=\"" + number_text(std::max(0.0, width - 1)) +
           "\" height=\"18\" class=\"p-" + std::string(page::name_of(paint_of_part(part))) + "\"/>";
    x += width;
  }
  html.open("div", {{"class", "stack"}}).raw(svg + "</svg>").close();
  html.open("div", {{"class", "scroll"}}).open("table", {{"data-table", "device"}});
  html.open("thead").open("tr").element("th", {{"scope", "col"}}, "user");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "bytes");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "share").close().close();
  html.open("tbody");
  const auto row = [&](const std::string& name, std::int64_t bytes, Paint paint) {
    html.open("tr", {{"data-key", name}, {"data-bytes", std::to_string(bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}}).raw(swatch(paint)).text(name).close();
    html.element("td", {{"class", "n"}, {"title", base::format_count(magnitude(bytes)) + " bytes"}},
                 base::bytes_text(bytes));
    html.element("td", {{"class", "n"}}, base::format_percent(static_cast<double>(bytes) / total));
    html.close();
  };
  for (const report::BarPart& part : bar_report.parts) {
    row(part.label, part.bytes, paint_of_part(part));
  }
  if (bar_report.total_bytes > bar_report.used_bytes) {
    row("free", static_cast<std::int64_t>(bar_report.total_bytes - bar_report.used_bytes),
        Paint::kLine);
  }
  html.close().close().close();
}

const char* name_of_change(const report::OomChange& change) {
  if (change.change == "contiguous_memory") return "no fragmentation (expandable_segments)";
  if (change.change == "smaller_batch") return "a smaller batch";
  if (change.change == "checkpoint") return "activation checkpointing";
  if (change.change == "optimizer_8bit") return "an optimizer with 8-bit state";
  return change.change.c_str();
}

void write_changes(Markup& html, const report::OomNeed& need) {
  if (need.changes.empty()) return;
  html.open("div", {{"class", "panel"}}).open("div", {{"class", "scroll"}});
  html.open("table", {{"data-table", "changes"}});
  html.open("thead").open("tr").element("th", {{"scope", "col"}}, "change");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "the step would need");
  html.element("th", {{"scope", "col"}}, "fits with 5% to spare").close().close().open("tbody");
  for (const report::OomChange& change : need.changes) {
    std::string name = name_of_change(change);
    if (change.batch_size) name += " of " + base::format_count(*change.batch_size);
    if (!change.layers.empty()) name += " of " + change.layers;
    html.open("tr").element("th", {{"scope", "row"}, {"class", "key"}}, name);
    html.element("td", {{"class", "n"}},
                 change.needed_bytes ? bytes_text(*change.needed_bytes) : "unknown");
    html.element("td", {}, change.is_enough ? "yes" : "no").close();
  }
  html.close().close().close().close();
}

// What filled the device when the request failed.
void write_lines_at_failure(Markup& html, const report::OomDetails& oom) {
  if (oom.top_lines.empty()) return;
  html.open("div", {{"class", "panel"}});
  html.open("div", {{"class", "head"}}).element("h3", {}, "What filled it at that point, by line");
  html.close().open("div", {{"class", "scroll"}}).open("table", {{"data-table", "failure"}});
  html.open("thead").open("tr").element("th", {{"scope", "col"}}, "line");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "bytes");
  html.element("th", {{"scope", "col"}, {"class", "n"}}, "share");
  html.element("th", {{"scope", "col"}, {"class", "n count"}}, "count").close().close();
  html.open("tbody");
  for (const report::GroupRow& row : oom.top_lines) {
    html.open("tr", {{"data-key", page::shortened(row.key, kLongestName)},
                     {"data-bytes", std::to_string(row.bytes)}});
    html.open("th", {{"scope", "row"}, {"class", "key"}});
    write_place(html, row.key);
    html.close();
    write_bytes(html, row.bytes);
    html.element("td", {{"class", "n"}}, base::format_percent(row.share));
    html.element("td", {{"class", "n count"}}, base::format_count(row.count)).close();
  }
  html.close().close().close().close();
}

}  // namespace

void write_failures(Markup& html, const DeviceView& view) {
  constexpr std::size_t kMostShown = 3;
  const auto& failures = view.report.oom_details;
  if (failures.empty()) return;
  html.open("section", {{"data-section", "oom"}, {"id", "oom-" + std::to_string(view.number)}});
  write_head(html, "Out of memory",
             failures.size() == 1 ? std::string("1 time")
                                  : base::format_count(failures.size()) + " times; the last " +
                                        std::to_string(std::min(kMostShown, failures.size())));
  for (std::size_t back = 1; back <= std::min(kMostShown, failures.size()); ++back) {
    const report::OomDetails& oom = failures[failures.size() - back];
    html.open("div", {{"class", "panels"}}).open("div", {{"class", "panel"}});
    html.open("dl", {{"class", "facts"}});
    const auto fact = [&](const char* name, const std::string& text) {
      html.element("dt", {}, name).element("dd", {}, text);
    };
    const auto bytes_fact = [&](const char* name, std::uint64_t bytes) {
      html.element("dt", {}, name)
          .element("dd",
                   {{"data-bytes", std::to_string(bytes)},
                    {"title", base::format_count(bytes) + " bytes"}},
                   bytes_text(bytes));
    };
    fact("when", point_text(view.report, oom.event, oom.time_ns));
    if (oom.requested_bytes > 0) bytes_fact("failed request", oom.requested_bytes);
    if (!oom.line.empty()) fact("by", oom.line);
    if (!oom.cause.empty()) {
      bytes_fact("largest usable free block", oom.largest_usable_bytes);
      bytes_fact("stranded in pinned segments", oom.stranded_bytes);
    }
    if (oom.reserved_bytes) bytes_fact("reserved", magnitude(*oom.reserved_bytes));
    if (oom.device_free_bytes) bytes_fact("free on the device", *oom.device_free_bytes);
    if (oom.device_total_bytes) bytes_fact("capacity of the device", *oom.device_total_bytes);
    if (oom.need.bytes) bytes_fact("the step needed, estimated", *oom.need.bytes);
    if (oom.need.available_bytes) bytes_fact("available to the step", *oom.need.available_bytes);
    html.close().close();
    write_changes(html, oom.need);
    // If the page's tables describe this failure, they are more detailed.
    const bool is_shown = view.point != nullptr && view.point->event == oom.event;
    if (!is_shown) write_lines_at_failure(html, oom);
    html.close();
  }
  html.close();
}

void write_totals(Markup& html, const DeviceView& view) {
  html.open("section", {{"data-section", "device"}});
  write_head(html, "Totals of " + device_name(view.report), events_text(view.report));
  html.open("div", {{"class", "panels"}}).open("div", {{"class", "panel"}});
  write_totals_table(html, view.report);
  if (const std::string why = disagreement_text(view.report); !why.empty()) {
    html.element("p", {{"class", "sub"}}, why);
  }
  html.close();
  const std::vector<Fact> facts = facts_of(view.report);
  if (!facts.empty()) {
    html.open("div", {{"class", "panel"}}).open("dl", {{"class", "facts"}});
    for (const Fact& fact : facts) {
      if (fact.label == kOnTheDevice) continue;  // a table of its own
      html.element("dt", {}, fact.label).element("dd", {}, fact.text);
    }
    html.close().close();
  }
  if (!view.report.bars.empty()) {
    const report::DeviceBarReport& bar_report = view.report.bars.back();
    html.open("div", {{"class", "panel"}});
    html.open("div", {{"class", "head"}}).element("h3", {}, "The whole device");
    html.element("span", {{"class", "sub"}},
                 bar_report.point == "oom" ? "when memory ran out" : "when it was fullest");
    html.close();
    write_bar(html, bar_report);
    html.close();
  }
  html.close().close();
}

}  // namespace plimsoll::exporters::html
