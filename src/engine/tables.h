// The tables of a recording, by name, as returned by Session::table(). One function per table.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/session_state.h"
#include "plimsoll/result.h"
#include "plimsoll/table.h"

namespace plimsoll::engine {

using StatePtr = std::shared_ptr<const Session::State>;

Table event_table(const StatePtr& state);
Table lifetime_table(const StatePtr& state);
Table segment_table(const StatePtr& state);
Table block_table(const StatePtr& state);
Table stack_table(const StatePtr& state);
Table frame_table(const StatePtr& state);
Table mark_table(const StatePtr& state);
Table timeline_table(const StatePtr& state);
Table site_table(const StatePtr& state);
Table tensor_table(const StatePtr& state);
Table step_table(const StatePtr& state);
Table setting_table(const StatePtr& state);
Table reading_table(const StatePtr& state);

struct TableKind {
  std::string_view name;
  Table (*make)(const StatePtr& state);
};
const std::vector<TableKind>& table_kinds();

Result<Table> make_table(std::string_view name, const StatePtr& state);

}  // namespace plimsoll::engine
