#include "exporters/terminal/holders.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/finding.h"
#include "base/units.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "exporters/terminal/devices.h"
#include "report/holders.h"
#include "text/layout.h"

namespace plimsoll::exporters::terminal {
namespace {

using report::HolderRow;

constexpr std::size_t kBytes = 10, kCount = 8;  // columns, each followed by two spaces

std::string row_text(std::string_view bytes, std::string_view count, std::string_view holder,
                     std::size_t indent, std::size_t width) {
  const std::string begin =
      "  " + text::pad_left(bytes, kBytes) + "  " + text::pad_left(count, kCount) + "  ";
  const std::size_t at = begin.size() + indent;
  return begin + std::string(indent, ' ') + text::wrap(holder, at + 2, width) + "\n";
}

std::string name_text(const HolderRow& row) {
  const std::string type = holder_type_text(row.type, row.length, row.limit);
  std::string text = row.name + (type.empty() ? "" : ": " + type);
  if (!row.place.empty()) text += ", " + row.place;
  return text::printable(text);
}

std::string tree_text(const std::vector<const HolderRow*>& rows, const TextOptions& options) {
  std::string text = row_text("bytes", "count", "holder", 0, options.width);
  for (const HolderRow* const row : rows) {
    // Deep rows keep half of the width.
    const std::size_t indent = std::min<std::size_t>(2 * row->depth, options.width / 3);
    text += row_text(bytes_text(row->bytes), base::format_count(row->count), name_text(*row),
                     indent, options.width);
    const std::string proof =
        proof_text(row->is_cut, row->freed_bytes, row->left_bytes, row->other, row->is_native);
    if (!proof.empty()) {
      text += row_text("", "", text::printable(proof), indent + 2, options.width);
    }
    // The program may need a single tensor: the tree does not know whether it leaks.
    if (!row->edit.empty() && row->count > 1) {
      text += row_text("", "", "→ " + text::printable(row->edit), indent + 2, options.width);
    }
  }
  return text;
}

}  // namespace

std::string holders_text(const report::Report& report, const TextOptions& options) {
  std::string text;
  for (const report::DeviceReport& device : report.devices) {
    const auto rows = rows_of(report.tables.holders, device);
    if (rows.empty()) continue;
    const auto points = rows_of(report.tables.points, device);
    const std::string live = points.empty()
                                 ? ""
                                 : ": " + bytes_text(points.front()->live_bytes) + " in " +
                                       base::counted(points.front()->live_count, "allocation");
    text +=
        (text.empty() ? "" : "\n") +
        bold_line("What holds the live memory of " + device_name(device) + live, options.color) +
        tree_text(rows, options);
  }
  if (!text.empty()) return text;
  const std::string why =
      report.source.format != "plimsoll"
          ? "A file of the format " + report.source.format +
                " has no holders. Record the program with plimsoll run, which looks for them."
          : "No holders are in this recording: Plimsoll looks for them at the end of a recording, "
            "when memory grows, and when asked. That needs the compiled adapter and the mode full.";
  return text::wrap(why, 0, options.width) + "\n";
}

}  // namespace plimsoll::exporters::terminal
