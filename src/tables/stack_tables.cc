// The tables `stacks` and `frames`. The number of a stack or a frame is its row; it is also a
// column, for joins.

#include <memory>
#include <utility>

#include "model/user_line.h"
#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

// Arrow's offsets are signed. These offsets are smaller than any size in memory, so their bits are
// the same.
static_assert(sizeof(model::FrameId) == sizeof(std::uint32_t));

void add_user_lines(TableBuilder& table) {
  const model::UserLines lines(table.trace());
  auto labels = std::make_shared<Dictionary>();
  for (std::uint32_t id = 0; id < lines.line_count(); ++id) {
    TableBuilder::append(*labels, lines.label(model::LineId{id}));
  }
  BatchColumn cells = table.compute<std::uint32_t>([&](std::size_t row) {
    return lines.line(model::StackId{static_cast<std::uint32_t>(row)}).value;
  });
  cells.dictionary = std::move(labels);
  table.add("line", "the line shown in reports, such as train.py:42 (forward)", std::move(cells));
}

}  // namespace

Table stack_table(const TracePtr& recording) {
  TableBuilder table("stacks", recording);
  const model::StackTable& stacks = table.trace().stacks;
  table.begin_batch(stacks.stack_count());
  table.add("stack", "number of the stack", table.row_numbers());
  BatchColumn frames{ColumnType::kUint32List, {}, nullptr};
  frames.column.values = stacks.all_frame_ids().data();
  frames.column.offsets = stacks.starts().data();
  table.add("frames", "rows of the table frames, innermost first; null if none was recorded",
            table.with_nulls(std::move(frames),
                             [](std::size_t row) { return row == model::kNoStack.index(); }));
  add_user_lines(table);
  return table.finish();
}

Table frame_table(const TracePtr& recording) {
  TableBuilder table("frames", recording);
  const model::StackTable& stacks = table.trace().stacks;
  const auto frame = [&](std::size_t row) -> const model::Frame& {
    return stacks.frame(model::FrameId{static_cast<std::uint32_t>(row)});
  };
  table.begin_batch(stacks.frame_count());
  table.add("frame", "number of the frame", table.row_numbers());
  table.add("file", "path of the source file, as recorded",
            table.strings([&](std::size_t row) { return frame(row).file; }));
  table.add("function", "name of the function, as recorded",
            table.strings([&](std::size_t row) { return frame(row).function; }));
  table.add("line", "line in the file; 0 if unknown",
            table.compute<std::uint32_t>([&](std::size_t row) { return frame(row).line; }));
  return table.finish();
}

}  // namespace plimsoll::tables
