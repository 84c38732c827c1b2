#include "tables/tables.h"

#include <new>
#include <string>

namespace plimsoll::tables {

const std::vector<TableKind>& table_kinds() {
  static const std::vector<TableKind> kKinds = {
      {"events", event_table},     {"lifetimes", lifetime_table}, {"segments", segment_table},
      {"blocks", block_table},     {"stacks", stack_table},       {"frames", frame_table},
      {"marks", mark_table},       {"timeline", timeline_table},  {"sites", site_table},
      {"tensors", tensor_table},   {"steps", step_table},         {"settings", setting_table},
      {"readings", reading_table},
  };
  return kKinds;
}

Result<Table> make_table(std::string_view name, const TracePtr& recording) {
  std::string known;
  for (const TableKind& kind : table_kinds()) {
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
    if (kind.name != name) continue;
    try {
      return kind.make(recording);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorCode::kLimit, "not enough memory for the table " + std::string(name));
    }
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "there is no table " + std::string(name) + "; there are " + known);
}

}  // namespace plimsoll::tables
