#include "report/text_tables.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/units.h"
#include "report/text_layout.h"
#include "report/text_table.h"
#include "report/text_words.h"

namespace plimsoll::report {
namespace {

using enum TextTable::Align;

constexpr std::size_t kFramesShown = 8;

// What the groups of a table about a moment are called.
struct GroupTable {
  TableKind kind;
  const std::vector<GroupRow> Tables::* rows;
  const char* key;
};
constexpr std::array kGroupTables = {
    GroupTable{TableKind::kLine, &Tables::by_line, "line"},
    GroupTable{TableKind::kStack, &Tables::by_stack, "stack (line, then its Python frames)"},
    GroupTable{TableKind::kSize, &Tables::by_size, "size"},
    GroupTable{TableKind::kStream, &Tables::by_stream, "stream"},
    GroupTable{TableKind::kPool, &Tables::by_pool, "pool"},
    GroupTable{TableKind::kCategory, &Tables::by_category, "category"},
    GroupTable{TableKind::kOperator, &Tables::by_operator, "operator"},
    GroupTable{TableKind::kLayer, &Tables::by_layer, "layer"},
};

std::string nothing(const std::string& sentence) { return "  " + sentence + "\n"; }

template <typename Row>
std::vector<const Row*> rows_of(const std::vector<Row>& rows, const DeviceReport& device) {
  std::vector<const Row*> found;
  for (const Row& row : rows) {
    if (row.device == device.device) found.push_back(&row);
  }
  return found;
}

std::string heading(const std::string& text, Color color) {
  return styled(text, Style::kBold, color) + "\n";
}

// A frame of Python that is not torch's own: what a user recognises.
bool is_telling(std::string_view frame) {
  return frame.find(".py:") != std::string_view::npos &&
         frame.find("/torch/") == std::string_view::npos &&
         frame.find("\\torch\\") == std::string_view::npos;
}

void add_frames(TextTable& table, const std::vector<std::string>& stack) {
  std::size_t shown = 0;
  for (const std::string& frame : stack) {
    if (!is_telling(frame) || shown == kFramesShown) continue;
    table.add_note(printable(frame));
    ++shown;
  }
  if (stack.size() > shown && shown > 0) {
    table.add_note("and " + base::format_count(stack.size() - shown) + " frames more (--json)");
  }
}

// What the running total has beyond the allocations that the file holds: older than the recording.
std::uint64_t older_bytes(const MomentRow& moment) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, moment.unexplained_bytes));
}

// "What fills cuda:0 at its peak, event 120 of 9,153 (0.9 ms): 20.8 GiB in 76 allocations"
std::string moment_heading(const DeviceReport& device, const MomentRow& moment) {
  std::string at;
  if (moment.name == "peak" && device.events > 0) at = " at its peak";
  if (moment.name == "end" || device.events == 0) at = " at the end";
  if (moment.name == "start") at = " at the start";
  if (moment.name == "oom") at = " when it ran out of memory";
  if (moment.event) {
    at += at.empty() ? " after " : ", ";
    at += moment_text(device, moment.event, moment.time_ns);
  }
  std::string text = "What fills " + device_name(device) + at + ": " +
                     bytes_text(moment.live_bytes + older_bytes(moment));
  if (older_bytes(moment) > 0) text += ", " + bytes_text(moment.live_bytes) + " of it";
  return text + " in " + base::format_count(moment.live_count) +
         (moment.live_count == 1 ? " allocation" : " allocations");
}

std::string share_text(std::uint64_t bytes, const MomentRow& moment) {
  const auto whole = static_cast<double>(moment.live_bytes + older_bytes(moment));
  return whole == 0 ? "" : base::format_percent(static_cast<double>(bytes) / whole);
}

TextTable group_rows(const std::vector<const GroupRow*>& rows, const MomentRow& moment,
                     const GroupTable& what) {
  TextTable table({{"bytes"}, {"share"}, {"count"}, {"largest"}, {what.key, kWords}});
  if (const std::uint64_t bytes = older_bytes(moment); bytes > 0) {
    table.add_row({bytes_text(bytes), share_text(bytes, moment), "", "",
                   "[older than the recording, not in the file]"});
  }
  std::uint64_t rest_bytes = moment.live_bytes;
  std::uint64_t rest_count = moment.live_count;
  for (const GroupRow* row : rows) {
    table.add_row({bytes_text(row->bytes), share_text(row->bytes, moment),
                   base::format_count(row->count), bytes_text(row->largest_bytes),
                   printable(row->key)});
    if (what.kind == TableKind::kStack) add_frames(table, row->stack);
    rest_bytes -= std::min(rest_bytes, row->bytes);
    rest_count -= std::min(rest_count, row->count);
  }
  if (rest_count > 0) {
    table.add_row({bytes_text(rest_bytes), share_text(rest_bytes, moment),
                   base::format_count(rest_count), "", "everything else"},
                  Style::kDim);
  }
  return table;
}

std::string group_table(const Report& report, const DeviceReport& device, const GroupTable& what,
                        std::size_t top, std::size_t width, Color color) {
  const std::vector<const MomentRow*> moments = rows_of(report.tables.moments, device);
  if (moments.empty()) return {};
  const MomentRow& moment = *moments.front();
  std::string text = heading(wrap(moment_heading(device, moment), 2, width), color);
  std::vector<const GroupRow*> rows = rows_of(report.tables.*what.rows, device);
  if (rows.empty() && moment.live_count == 0) return text;
  if (rows.empty()) {
    return text + nothing("This file does not say: it records no " + std::string(what.key) + ".");
  }
  rows.resize(std::min(rows.size(), top));
  text += group_rows(rows, moment, what).to_text(width, color);
  if (moment.unexplained_bytes < 0) {
    text += nothing(wrap("The running total is " + bytes_text(magnitude(moment.unexplained_bytes)) +
                             " less than these: events and blocks do not agree in this file.",
                         2, width));
  }
  if (moment.name == "peak" && !device.oom_details.empty()) {
    text += styled("  What filled it when it ran out of memory: --at oom\n", Style::kDim, color);
  }
  return text;
}

std::string site_table(const Report& report, const DeviceReport& device, std::size_t top,
                       std::size_t width, Color color) {
  std::string out = heading(
      "What each line of " + device_name(device) + " allocated over the whole recording", color);
  const std::vector<const SiteRow*> rows = rows_of(report.tables.sites, device);
  if (rows.empty()) return out + nothing("No allocation was recorded.");
  TextTable table(
      {{"bytes"}, {"count"}, {"temporary"}, {"never freed"}, {"largest"}, {"line", kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const SiteRow& row = *rows[i];
    table.add_row({bytes_text(row.bytes), base::format_count(row.allocations),
                   base::format_count(row.temporary), bytes_text(row.never_freed_bytes),
                   bytes_text(row.largest_bytes), printable(row.line)});
  }
  return out + table.to_text(width, color);
}

std::string growth_table(const Report& report, const DeviceReport& device, std::size_t top,
                         std::size_t width, Color color) {
  std::string out = heading("Lines of " + device_name(device) + " that grow", color);
  const std::vector<const GrowthRow*> rows = rows_of(report.tables.growth, device);
  if (rows.empty()) return out + nothing("None that the recording shows.");
  TextTable table(
      {{"per step"}, {"first"}, {"last"}, {"steps"}, {"a step is", kWords}, {"line", kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const GrowthRow& row = *rows[i];
    table.add_row({base::format_bytes(static_cast<std::int64_t>(row.bytes_per_step)),
                   base::format_bytes(row.first_bytes), base::format_bytes(row.last_bytes),
                   base::format_count(row.steps), shorten_place(printable(row.boundary), 16),
                   printable(row.line)});
  }
  return out + table.to_text(width, color);
}

std::string hexadecimal(std::uint64_t address) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%#llx", static_cast<unsigned long long>(address));
  return text.data();
}

std::string segment_table(const DeviceReport& device, std::size_t top, std::size_t width,
                          Color color) {
  std::string out = heading(
      "Partly free segments of " + device_name(device) + " at the end, and who pins them", color);
  const std::vector<SegmentFragmentation>& rows = device.fragmentation.segments;
  if (rows.empty()) return out + nothing("None.");
  TextTable table({{"pinned"},
                   {"cached"},
                   {"of"},
                   {"largest free"},
                   {"pins"},
                   {"segment, and the largest blocks in it", kWords}});
  for (std::size_t i = 0; i < std::min(rows.size(), top); ++i) {
    const SegmentFragmentation& row = rows[i];
    table.add_row({bytes_text(row.pinned_bytes), bytes_text(row.cached_bytes),
                   bytes_text(row.total_bytes), bytes_text(row.largest_free_bytes),
                   base::format_count(row.pinning_blocks), hexadecimal(row.address)});
    for (const PinningBlock& pin : row.pins) {
      table.add_note(bytes_text(pin.requested_bytes) + " " + printable(pin.line));
    }
  }
  return out + table.to_text(width, color);
}

}  // namespace

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> kNames = {"line", "stack",    "size",     "stream",
                                                  "pool", "category", "operator", "layer",
                                                  "site", "growth",   "segment"};
  return kNames;
}

std::optional<TableKind> table_named(std::string_view name) {
  const auto found = std::ranges::find(table_names(), name);
  if (found == table_names().end()) return std::nullopt;
  return static_cast<TableKind>(found - table_names().begin());
}

std::string table_text(const Report& report, const DeviceReport& device, TableKind kind,
                       std::size_t top, std::size_t width, Color color) {
  if (kind == TableKind::kSite) return site_table(report, device, top, width, color);
  if (kind == TableKind::kGrowth) return growth_table(report, device, top, width, color);
  if (kind == TableKind::kSegment) return segment_table(device, top, width, color);
  const auto what = std::ranges::find(kGroupTables, kind, &GroupTable::kind);
  return group_table(report, device, *what, top, width, color);
}

}  // namespace plimsoll::report
