// The tables of the text report: what memory consists of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "text/style.h"

namespace plimsoll::exporters::terminal {

enum class TableKind : std::uint8_t {
  kLine,
  kStack,
  kLibrary,
  kSize,
  kStream,
  kPool,
  kCategory,
  kOperator,
  kLayer,
  kPhase,
  kStep,
  kDtype,
  kRegion,
  kTensor,
  kUse,
  kHolder,
  kSaved,
  kSteps,
  kSite,
  kGrowth,
  kSegment,
};

// The default tables: category, layer and line for a native recording; library and line for a CUDA
// program's; line for other files.
std::vector<TableKind> natural_tables(const report::Report& report);

// The heading of a table about a point in time: the whole sentence, or a short form if the previous
// table already has the sentence.
enum class Heading : std::uint8_t { kSentence, kShort };

// "line", "stack", ... in the order of TableKind.
const std::vector<std::string>& table_names();
std::optional<TableKind> table_named(std::string_view name);

struct TableOptions {
  std::size_t top = 10;  // rows
  std::size_t width = 100;
  text::Color color = text::Color::kOff;
  // Returns the source text of a line as tables show it, empty if unknown; null: never shown.
  std::function<std::string(const std::string& line)> source_of = nullptr;
};

// The table of one device with its heading; a line that says so if there are no data.
std::string table_text(const report::Report& report, const report::DeviceReport& device,
                       TableKind kind, Heading heading, const TableOptions& options);
// Whether the table describes the point in time that the user chose.
bool is_about_point(TableKind kind);

}  // namespace plimsoll::exporters::terminal
