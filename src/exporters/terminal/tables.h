// The tables of the text report: what the memory is made of.
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
  kSaved,
  kSteps,
  kSite,
  kGrowth,
  kSegment,
};

// What a reader wants to see who did not say: category, layer and line of a native recording
// (of one of a CUDA program, the library and the line), the line of other files.
std::vector<TableKind> natural_tables(const report::Report& report);

// The heading of a table about a moment: the whole sentence, or a few words where the table above
// has said it.
enum class Heading : std::uint8_t { kSentence, kShort };

// "line", "stack", ... in the order above.
const std::vector<std::string>& table_names();
std::optional<TableKind> table_named(std::string_view name);

// How a table is printed.
struct TableOptions {
  std::size_t top = 10;  // rows
  std::size_t width = 100;
  text::Color color = text::Color::kOff;
  // The source text of a line as tables name it, empty where it is unknown; null: never shown.
  std::function<std::string(const std::string& line)> source_of = nullptr;
};

// The table for one device, with its heading. Where the file has nothing to fill it: one line that
// says so.
std::string table_text(const report::Report& report, const report::DeviceReport& device,
                       TableKind kind, Heading heading, const TableOptions& options);
// Whether it speaks of the moment that the user chose.
bool is_about_moment(TableKind kind);

}  // namespace plimsoll::exporters::terminal
