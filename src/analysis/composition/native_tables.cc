// Fills the tables that only some files have the data for: by category, layer, phase, step, dtype,
// region and tensor, and the reasons for unknown memory.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/composition/live_groups.h"
#include "analysis/holders/chains.h"
#include "analysis/holders/holders.h"
#include "analysis/holders/tree.h"
#include "model/group_names.h"
#include "model/groupings.h"
#include "model/last_use.h"
#include "model/live_allocations.h"

namespace plimsoll::analysis::composition {
namespace {

using model::Dimension;
using model::kNone;
using model::Mark;
using model::MarkKind;
using model::StringId;
using report::GroupRow;
using report::Tables;

// Numbers keys in order of first use.
class Keys {
 public:
  std::uint32_t id(std::string key) {
    const auto next = static_cast<std::uint32_t>(keys_.size());
    const auto [place, is_new] = ids_.try_emplace(std::move(key), next);
    if (is_new) keys_.push_back(place->first);
    return place->second;
  }
  const std::string& operator[](std::uint32_t id) const { return keys_[id]; }
  std::size_t size() const { return keys_.size(); }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> keys_;
};

template <typename KeyOf>
void group_by_key(const LiveGroups& groups, KeyOf&& key_of, std::vector<GroupRow>& out) {
  Keys keys;
  std::vector<std::uint32_t> ids;
  ids.reserve(groups.live().size());
  for (const LiveAllocation& live : groups.live()) ids.push_back(keys.id(key_of(live)));
  std::size_t next = 0;
  groups.group(
      keys.size(), [&](const LiveAllocation&) { return ids[next++]; },
      [&](std::uint32_t id) { return keys[id]; }, out);
}

// The innermost open region at each event that allocated live memory. An end closes the last open
// region of its name; marks of several threads are merged in order.
void by_region(const LiveGroups& groups, Tables& tables) {
  const model::Trace& trace = groups.trace();
  const auto& marks = trace.marks;
  const auto is_begin = [](const Mark& mark) { return mark.kind == MarkKind::kRegionBegin; };
  if (std::ranges::none_of(marks, is_begin)) return;
  const auto& mark_events = groups.device().mark_events;
  std::vector<StringId> open;
  std::size_t next = 0;
  group_by_key(
      groups,
      [&](const LiveAllocation& live) -> std::string {
        if (live.born == kNone) return model::kAllocatedBefore;
        for (; next < mark_events.size() && mark_events[next] <= live.born; ++next) {
          const Mark& mark = marks[next];
          if (is_begin(mark)) open.push_back(mark.name);
          if (mark.kind != MarkKind::kRegionEnd) continue;
          const auto last = std::ranges::find(open.rbegin(), open.rend(), mark.name);
          if (last != open.rend()) open.erase(std::next(last).base());
        }
        return open.empty() ? "[no region]" : std::string(trace.strings[open.back()]);
      },
      tables.by_region);
}

// Memory that the program keeps in any case is grouped by its category.
void by_use(const LiveGroups& groups, Tables& tables) {
  const model::Trace& trace = groups.trace();
  if (!trace.has_uses) return;
  const model::LastUses uses(trace, groups.device());
  group_by_key(
      groups,
      [&](const LiveAllocation& live) -> std::string {
        switch (uses.used_again(live.lifetime, groups.event())) {
          case model::UsedAgain::kYes:
            return "used again";
          case model::UsedAgain::kNo:
            return "not used again";
          case model::UsedAgain::kUnknown:
            return "unknown";
          case model::UsedAgain::kExempt:
            break;
        }
        const std::string_view category = trace.strings[live.category];
        return model::is_kept_category(category) ? std::string(category) : "waits for a stream";
      },
      tables.by_use);
}

// By what holds it, as the last walk found that reached it.
void by_holder(const LiveGroups& groups, Tables& tables) {
  const model::Trace& trace = groups.trace();
  const auto& holder = groups.device().lifetimes.holder;
  if (!holder.present()) return;
  const holders::HolderIndex index(trace);
  std::map<std::uint32_t, std::string> names;  // by the last link
  group_by_key(
      groups,
      [&](const LiveAllocation& live) -> std::string {
        const std::uint32_t link = holder[live.lifetime];
        if (link == 0) return "[no reference to it was found]";
        const auto [name, is_new] = names.try_emplace(link);
        if (is_new) name->second = holders::path_text(trace, index.holder(link));
        return name->second;
      },
      tables.by_holder);
  std::ranges::move(holders::holder_tree(trace, groups.device(), groups.live(), groups.event()),
                    std::back_inserter(tables.holders));
}

// Only the unknown memory, grouped separately.
void unknown_by_reason(const LiveGroups& groups, Tables& tables) {
  const model::Trace& trace = groups.trace();
  std::vector<LiveAllocation> unknown;
  for (const LiveAllocation& live : groups.live()) {
    if (!model::is_known_category(trace, live.category)) unknown.push_back(live);
  }
  const auto reason_of = [&](const LiveAllocation& live) -> std::string {
    if (trace.has_inferred_roles) {
      return live.born == kNone ? "allocated before recording, and its size does not identify it"
                                : "neither stack nor lifetime identifies it";
    }
    if (live.born == kNone) return "allocated before recording, and not identified";
    if (has(groups.device().lifetimes.flags[live.lifetime], model::LifetimeFlags::kAdopted)) {
      return "allocated before recording, and owned by no module or optimizer";
    }
    return "the recording does not identify it";
  };
  group_by_key(groups.only(unknown), reason_of, tables.unknown_by_reason);
}

}  // namespace

void fill_native_tables(const LiveGroups& groups, const model::UserLines& lines, Tables& tables) {
  const model::Trace& trace = groups.trace();
  const auto group = [&](Dimension dimension, std::vector<GroupRow>& out) {
    groups.group_by(lines, dimension, out);
  };
  // If everything is unknown, the table is useful only if the recorder could have known it.
  const bool is_reported = !trace.has_inferred_roles || has_categories(trace, groups.live());
  if (trace.has_categories() && is_reported) {
    group(Dimension::kCategory, tables.by_category);
    unknown_by_reason(groups, tables);
  }
  group(Dimension::kLayer, tables.by_layer);
  group(Dimension::kPhase, tables.by_phase);
  group(Dimension::kDtype, tables.by_dtype);
  group(Dimension::kTensor, tables.by_tensor);
  group(Dimension::kStep, tables.by_step);
  by_region(groups, tables);
  by_use(groups, tables);
  by_holder(groups, tables);
}

}  // namespace plimsoll::analysis::composition
