// The tables of the text report: what the memory is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "report/text_style.h"

namespace plimsoll::report {

enum class TableKind : std::uint8_t {
  kLine,
  kStack,
  kSize,
  kStream,
  kPool,
  kCategory,
  kOperator,
  kLayer,
  kSite,
  kGrowth,
  kSegment,
};

// "line", "stack", ... in the order above.
const std::vector<std::string>& table_names();
std::optional<TableKind> table_named(std::string_view name);

// The table for one device, with its heading. Where the file has nothing to fill it: one line that
// says so.
std::string table_text(const Report& report, const DeviceReport& device, TableKind kind,
                       std::size_t top, std::size_t width, Color color);

}  // namespace plimsoll::report
