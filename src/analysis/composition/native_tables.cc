#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/composition/grouping.h"
#include "model/categories.h"
#include "model/layers.h"
#include "model/steps.h"

namespace plimsoll::analysis::composition {
namespace {

using model::kNone;
using model::Mark;
using model::MarkKind;
using model::StringId;
using report::GroupRow;
using report::Tables;

constexpr const char* kBefore = "[allocated before recording]";

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
void group_by_key(const Grouping& grouping, KeyOf&& key_of, std::vector<GroupRow>& out) {
  Keys keys;
  std::vector<std::uint32_t> ids;
  ids.reserve(grouping.live().size());
  for (const LiveAllocation& live : grouping.live()) ids.push_back(keys.id(key_of(live)));
  std::size_t next = 0;
  grouping.group(
      keys.size(), [&](const LiveAllocation&) { return ids[next++]; },
      [&](std::uint32_t id) { return keys[id]; }, out);
}

void by_category(const Grouping& grouping, Tables& tables) {
  const model::Trace& trace = grouping.trace();
  // "unknown" and no category at all form one group, whose key is first in the string table.
  std::uint32_t unknown = 0;
  for (const LiveAllocation& live : grouping.live()) {
    if (trace.strings[live.category] == model::kUnknownCategory) unknown = live.category.value;
  }
  grouping.group(
      trace.strings.size(),
      [&](const LiveAllocation& live) {
        const std::uint32_t word = live.category.value;
        return word == 0 ? unknown : word;
      },
      [&](std::uint32_t id) {
        return id == 0 ? std::string(model::kUnknownCategory)
                       : std::string(trace.strings[StringId{id}]);
      },
      tables.by_category);
}

void by_layer(const Grouping& grouping, Tables& tables) {
  model::Layers layers(grouping.trace());
  std::vector<std::uint32_t> ids;
  ids.reserve(grouping.live().size());
  for (const LiveAllocation& live : grouping.live()) {
    ids.push_back(layers.of(grouping.device(), live.lifetime).value);
  }
  std::size_t next = 0;
  grouping.group(
      layers.size(), [&](const LiveAllocation&) { return ids[next++]; },
      [&](std::uint32_t id) {
        return id == 0 ? std::string("[no layer]") : layers.path(model::LayerId{id});
      },
      tables.by_layer);
}

void by_phase(const Grouping& grouping, Tables& tables) {
  constexpr std::uint32_t kBeforeId = 5;
  grouping.group(
      kBeforeId + 1,
      [&](const LiveAllocation& live) -> std::uint32_t {
        if (live.born == kNone) return kBeforeId;
        return static_cast<std::uint32_t>(grouping.birth(live).phase);
      },
      [](std::uint32_t id) {
        return std::string(id == kBeforeId ? kBefore : to_string(static_cast<model::Phase>(id)));
      },
      tables.by_phase);
}

void by_step(const Grouping& grouping, Tables& tables) {
  const auto ends = model::step_ends(grouping.trace(), grouping.device());
  if (ends.empty()) return;
  const auto before = static_cast<std::uint32_t>(ends.size() + 1);
  grouping.group(
      ends.size() + 2,
      [&](const LiveAllocation& live) {
        return live.born == kNone ? before
                                  : static_cast<std::uint32_t>(model::step_of(ends, live.born));
      },
      [&](std::uint32_t id) -> std::string {
        if (id == before) return kBefore;
        if (id == ends.size()) return "after step " + std::to_string(ends.back().step);
        const std::string name = "step " + std::to_string(ends[id].step);
        return id == 0 ? name + " and before it" : name;
      },
      tables.by_step);
}

// The innermost open region at each event that allocated live memory. An end closes the last open
// region of its name; marks of several threads are merged in order.
void by_region(const Grouping& grouping, Tables& tables) {
  const model::Trace& trace = grouping.trace();
  const auto& marks = trace.marks;
  const auto is_begin = [](const Mark& mark) { return mark.kind == MarkKind::kRegionBegin; };
  if (std::ranges::none_of(marks, is_begin)) return;
  const auto& mark_events = grouping.device().mark_events;
  std::vector<StringId> open;
  std::size_t next = 0;
  group_by_key(
      grouping,
      [&](const LiveAllocation& live) -> std::string {
        if (live.born == kNone) return kBefore;
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

const model::Tensor& tensor_of(const Grouping& grouping, const LiveAllocation& live) {
  const model::Trace& trace = grouping.trace();
  return trace.tensors[grouping.device().lifetimes.tensor[live.lifetime].index()];
}

void by_dtype(const Grouping& grouping, Tables& tables) {
  const model::Trace& trace = grouping.trace();
  grouping.group(
      trace.strings.size(),
      [&](const LiveAllocation& live) { return tensor_of(grouping, live).dtype.value; },
      [&](std::uint32_t id) {
        return id == 0 ? "[unknown]" : std::string(trace.strings[StringId{id}]);
      },
      tables.by_dtype);
}

void by_tensor(const Grouping& grouping, Tables& tables) {
  const auto& strings = grouping.trace().strings;
  group_by_key(
      grouping,
      [&](const LiveAllocation& live) -> std::string {
        const model::Tensor& tensor = tensor_of(grouping, live);
        if (tensor == model::Tensor{}) return "[unknown]";
        std::string key(strings[tensor.name]);
        for (const StringId more : {tensor.dtype, tensor.shape}) {
          if (more != StringId{} && !key.empty()) key += ' ';
          key += strings[more];
        }
        return key;
      },
      tables.by_tensor);
}

// Only the unknown memory, as a separate grouping.
void unknown_by_reason(const Grouping& grouping, Tables& tables) {
  const model::Trace& trace = grouping.trace();
  std::vector<LiveAllocation> unknown;
  for (const LiveAllocation& live : grouping.live()) {
    if (!has_category(trace, live)) unknown.push_back(live);
  }
  const auto reason_of = [&](const LiveAllocation& live) -> std::string {
    if (trace.has_inferred_roles) {
      return live.born == kNone ? "allocated before recording, and its size does not identify it"
                                : "neither stack nor lifetime identifies it";
    }
    if (live.born == kNone) return "allocated before recording, and not identified";
    if (has(grouping.device().lifetimes.flags[live.lifetime], model::LifetimeFlags::kAdopted)) {
      return "allocated before recording, and owned by no module or optimizer";
    }
    return "the recording does not identify it";
  };
  group_by_key(grouping.only(unknown), reason_of, tables.unknown_by_reason);
}

}  // namespace

void fill_native_tables(const Grouping& grouping, Tables& tables) {
  const model::Trace& trace = grouping.trace();
  // If everything is unknown, the table is useful only if the recorder could have known it.
  const bool is_reported = !trace.has_inferred_roles || has_categories(trace, grouping.live());
  if (trace.has_categories() && is_reported) {
    by_category(grouping, tables);
    unknown_by_reason(grouping, tables);
  }
  if (model::Layers::are_known(trace)) by_layer(grouping, tables);
  if (trace.has_phases()) by_phase(grouping, tables);
  if (trace.has_tensors()) {
    by_dtype(grouping, tables);
    by_tensor(grouping, tables);
  }
  by_step(grouping, tables);
  by_region(grouping, tables);
}

}  // namespace plimsoll::analysis::composition
