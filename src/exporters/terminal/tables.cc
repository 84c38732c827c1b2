#include "exporters/terminal/tables.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/stack_frames.h"
#include "exporters/terminal/devices.h"
#include "exporters/terminal/native_tables.h"
#include "report/last_use.h"
#include "report/rest_row.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

using enum text::TextTable::Align;

// A table about a point in time: its rows, and the heading of their names.
struct GroupTable {
  TableKind kind;
  const std::vector<report::GroupRow> report::Tables::* rows;
  const char* key;
};
constexpr std::array kGroupTables = {
    GroupTable{TableKind::kLine, &report::Tables::by_line, "line"},
    GroupTable{TableKind::kStack, &report::Tables::by_stack,
               "stack (line, then its Python frames)"},
    GroupTable{TableKind::kLibrary, &report::Tables::by_library, "library"},
    GroupTable{TableKind::kSize, &report::Tables::by_size, "size"},
    GroupTable{TableKind::kStream, &report::Tables::by_stream, "stream"},
    GroupTable{TableKind::kPool, &report::Tables::by_pool, "pool"},
    GroupTable{TableKind::kCategory, &report::Tables::by_category, "category"},
    GroupTable{TableKind::kOperator, &report::Tables::by_operator, "operator"},
    GroupTable{TableKind::kLayer, &report::Tables::by_layer, "layer"},
    GroupTable{TableKind::kPhase, &report::Tables::by_phase, "phase"},
    GroupTable{TableKind::kStep, &report::Tables::by_step, "step"},
    GroupTable{TableKind::kDtype, &report::Tables::by_dtype, "dtype"},
    GroupTable{TableKind::kRegion, &report::Tables::by_region, "region"},
    GroupTable{TableKind::kTensor, &report::Tables::by_tensor, "tensor"},
    GroupTable{TableKind::kUse, &report::Tables::by_use, "use"},
    GroupTable{TableKind::kHolder, &report::Tables::by_holder, "holder"},
};

std::string nothing(const std::string& sentence) { return "  " + sentence + "\n"; }

void add_frames(text::TextTable& table, const std::vector<std::string>& stack,
                const std::vector<std::size_t>& shown) {
  for (const std::size_t frame : shown) table.add_note(text::printable(stack[frame]));
  if (stack.size() > shown.size() && !shown.empty()) {
    table.add_note("and " + base::format_count(stack.size() - shown.size()) +
                   " frames more (--json)");
  }
}

// Adds the source text of the line in the last row.
void add_source(text::TextTable& table, const std::string& line, const TableOptions& options) {
  if (!options.source_of) return;
  if (std::string text = text::printable(options.source_of(line)); !text.empty()) {
    table.add_aside(std::move(text));
  }
}

// Adds the lines of packages through which a line of the program allocates much of the memory: the
// program's own line may be the call that trains.
void add_inside(text::TextTable& table, const report::GroupRow& row,
                const report::PointInTime& point) {
  constexpr std::size_t kMost = 5;
  constexpr std::uint64_t kLeastPart = 32;  // of the whole
  for (std::size_t at = 0; at < std::min(row.inside.size(), kMost); ++at) {
    const report::InnerLineRow& part = row.inside[at];
    if (part.bytes < point.live_bytes / kLeastPart) return;
    table.add_row({bytes_text(part.bytes), share_text(part.bytes, point),
                   base::format_count(part.count), "", "  " + text::printable(part.line)},
                  text::Style::kDim);
  }
}

// The rows of a table that are shown, and the sum of the others.
struct ShownRows {
  std::vector<const report::GroupRow*> rows;
  std::uint64_t rest_groups = 0;  // 0: unknown
};

// The first `top` rows. If only one other remains, it is shown too: a row for the rest would take
// the same space.
ShownRows shown_rows(std::vector<const report::GroupRow*> rows, std::size_t top) {
  ShownRows shown;
  if (!rows.empty()) {
    if (const auto groups = report::groups_in_rest(rows.back()->key)) {
      shown.rest_groups = *groups;
      rows.pop_back();
    }
  }
  const std::size_t others = rows.size() - std::min(rows.size(), top);
  if (others + shown.rest_groups > 1) {
    shown.rest_groups += others;
    rows.resize(rows.size() - others);
  }
  shown.rows = std::move(rows);
  return shown;
}

text::TextTable group_rows(const ShownRows& shown, const report::PointInTime& point,
                           const GroupTable& what, const TableOptions& options) {
  const std::vector<const report::GroupRow*>& rows = shown.rows;
  text::TextTable table({{"bytes"}, {"share"}, {"count"}, {"largest"}, {what.key, kWords}});
  if (const std::uint64_t bytes = older_bytes(point); bytes > 0) {
    table.add_row({bytes_text(bytes), share_text(bytes, point), "", "",
                   "[allocated before the recording, not in the file]"});
  }
  std::uint64_t rest_bytes = point.live_bytes;
  std::uint64_t rest_count = point.live_count;
  const bool has_frames = what.kind == TableKind::kStack;
  const auto frames = has_frames ? frames_shown(rows) : std::vector<std::vector<std::size_t>>{};
  for (std::size_t at = 0; at < rows.size(); ++at) {
    const report::GroupRow& row = *rows[at];
    table.add_row({bytes_text(row.bytes), share_text(row.bytes, point),
                   base::format_count(row.count), bytes_text(row.largest_bytes),
                   text::printable(row.key)});
    if (what.kind == TableKind::kLine) {
      add_source(table, row.key, options);
      add_inside(table, row, point);
    }
    if (has_frames) add_frames(table, row.stack, frames[at]);
    rest_bytes -= std::min(rest_bytes, row.bytes);
    rest_count -= std::min(rest_count, row.count);
  }
  if (rest_count > 0) {
    table.add_row(
        {bytes_text(rest_bytes), share_text(rest_bytes, point), base::format_count(rest_count), "",
         shown.rest_groups > 0 ? report::rest_key(shown.rest_groups) : "[other]"},
        text::Style::kDim);
  }
  return table;
}

std::string inferred_text(std::uint64_t by_size_bytes) {
  std::string text =
      "Snapshots do not record categories. These are inferred from stacks and lifetimes";
  if (by_size_bytes > 0) {
    text += "; those of the " + bytes_text(by_size_bytes) +
            " from before the recording from sizes and counts alone";
  }
  return text + ".";
}

// What the program reads after its recording is unknown.
std::string at_end_text(const report::PointInTime& point,
                        const std::vector<const report::GroupRow*>& rows) {
  const auto unused = std::ranges::find(rows, "not used again", &report::GroupRow::key);
  const std::uint64_t at_end_bytes = point.unused_at_end_bytes.value_or(0);
  if (unused == rows.end() || !report::is_most_at_end(at_end_bytes, (*unused)->bytes)) return {};
  return "Not used again before the recording ends: " + bytes_text(at_end_bytes) +
         " are live then, and the program may read them later.";
}

std::string group_table(const report::Report& report, const report::DeviceReport& device,
                        const GroupTable& what, Heading kind, const TableOptions& options) {
  const auto& [top, width, color, source_of] = options;
  const std::vector<const report::PointInTime*> points = rows_of(report.tables.points, device);
  if (points.empty()) return {};
  const report::PointInTime& point = *points.front();
  const std::string sentence = kind == Heading::kSentence ? point_heading(device, point)
                                                          : "The same by " + std::string(what.key);
  const LayerTreeText tree = what.kind == TableKind::kLayer
                                 ? layer_tree(report, device, top, width, color)
                                 : LayerTreeText{};
  if (!tree.table.empty()) {
    return bold_line(text::wrap(sentence + tree.heading, 2, width), color) + tree.table;
  }
  std::string text = bold_line(text::wrap(sentence, 2, width), color);
  std::vector<const report::GroupRow*> rows = rows_of(report.tables.*what.rows, device);
  if (rows.empty() && point.live_count == 0) return kind == Heading::kSentence ? text : "";
  const bool is_on_others =
      what.kind == TableKind::kCategory && !(report.tables.*what.rows).empty();
  if (rows.empty() && is_on_others) return {};
  if (rows.empty()) {
    return text + nothing("Unknown: this file records no " + std::string(what.key) + ".");
  }
  const std::string at_end = what.kind == TableKind::kUse ? at_end_text(point, rows) : "";
  text += group_rows(shown_rows(std::move(rows), top), point, what, options).to_text(width, color);
  if (what.kind == TableKind::kCategory && point.inferred_by_size_bytes) {
    text += nothing(text::wrap(inferred_text(*point.inferred_by_size_bytes), 2, width));
  }
  if (!at_end.empty()) text += nothing(text::wrap(at_end, 2, width));
  if (point.unexplained_bytes < 0) {
    text += nothing(text::wrap("The running total is " +
                                   bytes_text(magnitude(point.unexplained_bytes)) +
                                   " less than these: events and blocks do not agree in this file.",
                               2, width));
  }
  if (kind == Heading::kSentence && point.name == "peak" && !device.oom_details.empty()) {
    const char* const which =
        device.oom_details.size() == 1 ? "" : " (the last time; --at oom:1 the first)";
    text += text::styled(
        std::string("  What filled it when it ran out of memory: --at oom") + which + "\n",
        text::Style::kDim, color);
  }
  return text;
}

std::string site_table(const report::Report& report, const report::DeviceReport& device,
                       const TableOptions& options) {
  const auto& [top, width, color, source_of] = options;
  std::string out = bold_line(
      "What each line of " + device_name(device) + " allocated over the whole recording", color);
  const std::vector<const report::SiteRow*> rows = rows_of(report.tables.sites, device);
  if (rows.empty()) return out + nothing("No allocation was recorded.");
  text::TextTable table(
      {{"bytes"}, {"count"}, {"temporary"}, {"never freed"}, {"largest"}, {"line", kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const report::SiteRow& row = *rows[i];
    table.add_row({bytes_text(row.bytes), base::format_count(row.allocations),
                   base::format_count(row.temporary), bytes_text(row.never_freed_bytes),
                   bytes_text(row.largest_bytes), text::printable(row.line)});
    add_source(table, row.line, options);
  }
  return out + table.to_text(width, color);
}

std::string growth_rows(const std::vector<const report::GrowthRow*>& rows, const char* key,
                        const TableOptions& options) {
  text::TextTable table(
      {{"per step"}, {"first"}, {"last"}, {"steps"}, {"a step is", kWords}, {key, kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), options.top); ++i) {
    const report::GrowthRow& row = *rows[i];
    table.add_row({base::bytes_text(row.bytes_per_step), base::bytes_text(row.first_bytes),
                   base::bytes_text(row.last_bytes), base::format_count(row.steps),
                   text::shorten_place(text::printable(row.boundary), 16),
                   text::printable(row.key)});
    add_source(table, row.line, options);
  }
  return table.empty() ? "" : table.to_text(options.width, options.color);
}

std::string growth_table(const report::Report& report, const report::DeviceReport& device,
                         const TableOptions& options) {
  std::string out = bold_line("Lines of " + device_name(device) + " that grow", options.color);
  const auto lines = rows_of(report.tables.growth, device);
  out += lines.empty() ? nothing("None that the recording shows.")
                       : growth_rows(lines, "line", options);
  out += growth_rows(rows_of(report.tables.growth_by_layer, device), "layer", options);
  return out + growth_rows(rows_of(report.tables.growth_by_category, device), "category", options);
}

std::string hexadecimal(std::uint64_t address) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%#llx", static_cast<unsigned long long>(address));
  return text.data();
}

std::string segment_table(const report::DeviceReport& device, std::size_t top, std::size_t width,
                          text::Color color) {
  std::string out = bold_line(
      "Partly free segments of " + device_name(device) + " at the end, and what pins them", color);
  const std::vector<report::SegmentFragmentation>& rows = device.fragmentation.segments;
  if (rows.empty()) return out + nothing("None.");
  text::TextTable table({{"pinned"},
                         {"cached"},
                         {"of"},
                         {"largest free"},
                         {"pins"},
                         {"segment, and the largest blocks in it", kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const report::SegmentFragmentation& row = rows[i];
    table.add_row({bytes_text(row.pinned_bytes), bytes_text(row.cached_bytes),
                   bytes_text(row.total_bytes), bytes_text(row.largest_free_bytes),
                   base::format_count(row.pinning_blocks), hexadecimal(row.address)});
    for (const report::PinningBlock& pin : row.pins) {
      table.add_note(bytes_text(pin.requested_bytes) + " " + text::printable(pin.line));
    }
  }
  return out + table.to_text(width, color);
}

}  // namespace

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> kNames = {
      "line",     "stack",  "library", "size",  "stream", "pool",   "category",
      "operator", "layer",  "phase",   "step",  "dtype",  "region", "tensor",
      "use",      "holder", "saved",   "steps", "site",   "growth", "segment"};
  return kNames;
}

std::optional<TableKind> table_named(std::string_view name) {
  const auto found = std::ranges::find(table_names(), name);
  if (found == table_names().end()) return std::nullopt;
  return static_cast<TableKind>(found - table_names().begin());
}

std::vector<TableKind> natural_tables(const report::Report& report) {
  if (!report.tables.by_library.empty()) return {TableKind::kLibrary, TableKind::kLine};
  if (report.tables.by_phase.empty()) {
    if (report.tables.by_category.empty()) return {TableKind::kLine};
    return {TableKind::kCategory, TableKind::kLine};
  }
  return {TableKind::kCategory, TableKind::kLayer, TableKind::kLine};
}

bool is_about_point(TableKind kind) {
  return std::ranges::find(kGroupTables, kind, &GroupTable::kind) != kGroupTables.end();
}

std::string table_text(const report::Report& report, const report::DeviceReport& device,
                       TableKind kind, Heading heading_kind, const TableOptions& options) {
  const auto& [top, width, color, source_of] = options;
  if (kind == TableKind::kSaved) {
    std::string text = saved_table(report, device, top, width, color);
    if (!text.empty()) return text;
    return bold_line("What is saved for backward on " + device_name(device), color) +
           nothing("Unknown: this file does not mark where backward begins.");
  }
  if (kind == TableKind::kSteps) {
    std::string text = step_table(report, device, top, width, color);
    if (!text.empty()) return text;
    return bold_line("Steps of " + device_name(device), color) +
           nothing("Unknown: this file marks no steps.");
  }
  if (kind == TableKind::kSite) return site_table(report, device, options);
  if (kind == TableKind::kGrowth) return growth_table(report, device, options);
  if (kind == TableKind::kSegment) return segment_table(device, top, width, color);
  const auto what = std::ranges::find(kGroupTables, kind, &GroupTable::kind);
  return group_table(report, device, *what, heading_kind, options);
}

}  // namespace plimsoll::exporters::terminal
