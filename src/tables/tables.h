// The tables of a recording, by name, as returned by Session::table(). One function per table.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "model/trace.h"
#include "plimsoll/result.h"
#include "plimsoll/table.h"

namespace plimsoll::tables {

using TracePtr = std::shared_ptr<const model::Trace>;

Table event_table(const TracePtr& recording);
Table lifetime_table(const TracePtr& recording);
Table segment_table(const TracePtr& recording);
Table block_table(const TracePtr& recording);
Table stack_table(const TracePtr& recording);
Table frame_table(const TracePtr& recording);
Table mark_table(const TracePtr& recording);
Table timeline_table(const TracePtr& recording);
Table site_table(const TracePtr& recording);
Table tensor_table(const TracePtr& recording);
Table step_table(const TracePtr& recording);
Table setting_table(const TracePtr& recording);
Table reading_table(const TracePtr& recording);

struct TableKind {
  std::string_view name;
  Table (*make)(const TracePtr& recording);
};
const std::vector<TableKind>& table_kinds();

Result<Table> make_table(std::string_view name, const TracePtr& recording);

}  // namespace plimsoll::tables
