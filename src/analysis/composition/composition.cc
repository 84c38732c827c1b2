#include "analysis/composition/composition.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/composition/event_point.h"
#include "analysis/composition/live_groups.h"
#include "analysis/live_bytes.h"
#include "base/natural_order.h"
#include "model/group_names.h"
#include "model/inner_lines.h"
#include "model/last_use.h"
#include "model/live_allocations.h"
#include "model/live_set.h"
#include "model/steps.h"
#include "report/rest_row.h"

namespace plimsoll::analysis::composition {
namespace {

using model::Trace;
using report::GroupRow;
using report::PointInTime;
using Table = std::vector<GroupRow>;

// The annotation of the device that began last among those open at that time; empty if none is.
std::string_view innermost_annotation(const Trace& trace, model::Device device,
                                      std::int64_t time_ns) {
  std::string_view name;
  for (const model::Annotation& each : trace.annotations) {  // in order of begin
    const bool has_begun = each.begin_ns == model::kNoTime || each.begin_ns <= time_ns;
    const bool is_open = each.end_ns == model::kNoTime || each.end_ns > time_ns;
    if (each.device == device && has_begun && is_open) name = trace.strings[each.name];
  }
  return name;
}

// Adds the program's activity at that event.
void add_activity(const Trace& trace, const model::DeviceTrace& device, std::uint32_t event,
                  PointInTime& row) {
  const auto ends = model::step_ends(trace, device);
  const std::size_t step = model::step_of(ends, event);
  if (step < ends.size()) row.step = ends[step].step;
  const std::int64_t time_ns = device.events.time_ns[event];
  if (!trace.has_phases() && time_ns != model::kNoTime) {
    row.region = innermost_annotation(trace, device.device, time_ns);
  }
  if (!trace.has_phases() || device.events.action[event] != model::Action::kAlloc) return;
  const model::Site& site = trace.site(device, event);
  row.phase = name_of(site.phase);
  row.layer = trace.strings[site.layer];
  row.op = trace.strings[site.op];
}

// Bytes whose category is inferred only from size and count; nullopt if no category is inferred.
std::optional<std::uint64_t> inferred_by_size(const Trace& trace,
                                              std::span<const LiveAllocation> live) {
  if (!trace.has_inferred_roles || !model::has_categories(trace, live)) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const LiveAllocation& allocation : live) {
    if (allocation.born == model::kNone && model::is_known_category(trace, allocation.category)) {
      bytes += allocation.size_bytes;
    }
  }
  return bytes;
}

// Bytes that no operator uses again and that are live when the recording ends.
std::optional<std::uint64_t> unused_at_end(const Trace& trace, const model::DeviceTrace& device,
                                           std::int64_t event,
                                           std::span<const LiveAllocation> live) {
  if (!trace.has_uses) return std::nullopt;
  const model::LastUses uses(trace, device);
  const model::Liveness liveness = model::default_liveness(device);
  std::uint64_t bytes = 0;
  for (const LiveAllocation& allocation : live) {
    const std::uint32_t row = allocation.lifetime;
    if (model::death(device.lifetimes, row, liveness) != model::kNone) continue;
    if (uses.used_again(row, event) == model::UsedAgain::kNo) bytes += allocation.size_bytes;
  }
  return bytes;
}

PointInTime point_row(const PassContext& context, std::size_t d, const EventPoint& point,
                      std::span<const LiveAllocation> live) {
  const model::DeviceTrace& device = context.trace.devices[d];
  PointInTime row;
  row.device = device.device.ordinal;
  row.name = point.name;
  if (point.event != model::kBeforeFirst) {
    row.event = static_cast<std::uint64_t>(point.event);
    const std::int64_t time_ns = device.events.time_ns[*row.event];
    if (time_ns != model::kNoTime) row.time_ns = time_ns;
    add_activity(context.trace, device, static_cast<std::uint32_t>(*row.event), row);
  }
  row.live_count = live.size();
  for (const LiveAllocation& allocation : live) row.live_bytes += allocation.size_bytes;
  row.inferred_by_size_bytes = inferred_by_size(context.trace, live);
  row.unused_at_end_bytes = unused_at_end(context.trace, device, point.event, live);
  const std::int64_t total = live_bytes_at(device, context.report.devices[d], point.event);
  row.unexplained_bytes =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(total) - row.live_bytes);
  return row;
}

// The tables of one device at its point in time.
class DeviceTables {
 public:
  DeviceTables(PassContext& context, const LiveGroups& groups, const model::InnerLines& inner)
      : context_(context), trace_(context.trace), groups_(groups), inner_(inner) {}

  void fill(report::Tables& tables) {
    const auto group = [&](model::Dimension dimension, Table& out) {
      groups_.group_by(context_.lines, dimension, out);
    };
    by_line(tables.by_line);
    by_stack(tables.by_stack);
    by_library(tables.by_library);
    group(model::Dimension::kOperator, tables.by_operator);
    groups_.group(
        model::kSizeClasses, [](const auto& live) { return model::size_class(live.size_bytes); },
        model::size_class_name, tables.by_size);
    group(model::Dimension::kStream, tables.by_stream);
    group(model::Dimension::kPool, tables.by_pool);
    fill_native_tables(groups_, context_.lines, tables);
  }

 private:
  void by_line(Table& out) {
    const std::vector<model::InnerLine>& inner = inner_.rows();
    std::vector<report::InnerLineRow> parts(inner.size());
    for (const LiveAllocation& live : groups_.live()) {
      report::InnerLineRow& part = parts[inner_.of(live.stack)];
      part.bytes += live.size_bytes;
      part.count += 1;
    }
    std::vector<std::vector<std::uint32_t>> of_line(context_.lines.line_count() + 1);
    for (std::uint32_t row = 0; row < inner.size(); ++row) {
      if (parts[row].count > 0) of_line[inner[row].line.index()].push_back(row);
    }
    groups_.describe_groups(
        of_line.size(), [](const LiveAllocation& live) { return live.line.value; },
        [&](std::uint32_t id, GroupRow& row) {
          row.key = model::line_name(context_.lines, model::LineId{id});
          const bool calls_package = std::ranges::any_of(
              of_line[id], [&](std::uint32_t part) { return inner[part].is_in_package; });
          if (!calls_package) return;
          for (const std::uint32_t part : of_line[id]) {
            row.inside.push_back(parts[part]);
            row.inside.back().line = inner[part].name;
          }
          keep_largest(row.inside);
        },
        out);
  }

  // Keeps the largest rows, largest first, and sums the others in one row.
  static void keep_largest(std::vector<report::InnerLineRow>& rows) {
    constexpr std::size_t kMostInside = 10;
    std::ranges::sort(rows, [](const auto& a, const auto& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : base::natural_less(a.line, b.line);
    });
    if (rows.size() <= kMostInside + 1) return;
    report::InnerLineRow rest{report::rest_key(rows.size() - kMostInside)};
    for (std::size_t at = kMostInside; at < rows.size(); ++at) {
      rest.bytes += rows[at].bytes;
      rest.count += rows[at].count;
    }
    rows.resize(kMostInside);
    rows.push_back(std::move(rest));
  }

  // The stack "none" has two meanings here; the id past the last one means "before recording".
  void by_stack(Table& out) {
    const auto stack_count = static_cast<std::uint32_t>(trace_.stacks.stack_count());
    const model::LineId before = model::before_recording(context_.lines);
    groups_.describe_groups(
        stack_count + 1,
        [&](const LiveAllocation& live) {
          return live.line == before ? stack_count : live.stack.value;
        },
        [&](std::uint32_t id, GroupRow& row) {
          row.key = model::line_name(
              context_.lines, id == stack_count ? before : context_.lines.line(model::StackId{id}));
          if (id == stack_count) return;
          for (const model::FrameId frame : trace_.stacks.frames(model::StackId{id})) {
            row.stack.push_back(model::frame_name(trace_, frame));
          }
        },
        out);
  }

  void by_library(Table& out) {
    if (!trace_.has_native_lines) return;
    const auto stack_count = static_cast<std::uint32_t>(trace_.stacks.stack_count());
    std::unordered_map<std::string_view, std::uint32_t> ids;
    std::vector<std::string_view> names;
    std::vector<std::uint32_t> of_stack(stack_count);
    for (std::uint32_t row = 0; row < stack_count; ++row) {
      const std::string_view name = context_.lines.library(model::StackId{row});
      const auto next = static_cast<std::uint32_t>(names.size());
      const auto [place, is_new] = ids.try_emplace(name, next);
      if (is_new) names.push_back(name);
      of_stack[row] = place->second;
    }
    groups_.group(
        names.size(), [&](const auto& live) { return of_stack[live.stack.index()]; },
        [&](auto id) { return std::string(names[id].empty() ? "[unknown]" : names[id]); }, out);
  }

  PassContext& context_;
  const Trace& trace_;
  const LiveGroups& groups_;
  const model::InnerLines& inner_;
};

class CompositionPass final : public Pass {
 public:
  const char* name() const override { return "composition"; }
  std::span<const char* const> depends_on() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  void clear(report::Report& report) const override {
    report::Tables& tables = report.tables;
    tables.points.clear();
    for (Table* table :
         {&tables.by_line, &tables.by_stack, &tables.by_library, &tables.by_size, &tables.by_stream,
          &tables.by_pool, &tables.by_category, &tables.by_operator, &tables.by_layer,
          &tables.by_phase, &tables.by_step, &tables.by_dtype, &tables.by_region, &tables.by_tensor,
          &tables.by_use, &tables.by_holder, &tables.unknown_by_reason}) {
      table->clear();
    }
    tables.holders.clear();
  }
  Status run(PassContext& context) const override {
    if (!context.trace.oom_messages.empty()) return {};  // a text names no allocation
    auto points = find_points(context);
    if (!points) return std::move(points).error();
    report::Tables& tables = context.report.tables;
    const model::InnerLines inner(context.trace, context.lines);
    for (std::size_t d = 0; d < context.trace.devices.size(); ++d) {
      const auto& point = (*points)[d];
      if (!point || context.progress.interrupted()) continue;
      auto live = model::live_allocations(context.trace, context.trace.devices[d], context.lines,
                                          point->event);
      if (point->is_of_segments) {
        std::erase_if(live, [&](const model::LiveAllocation& each) {
          return context.trace.devices[d].lifetimes.block[each.lifetime] == model::kNone;
        });
      }
      const PointInTime row = point_row(context, d, *point, live);
      const LiveGroups groups(context.trace, context.trace.devices[d], row, live,
                              context.options.top);
      DeviceTables(context, groups, inner).fill(tables);
      tables.points.push_back(row);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<CompositionPass>(); }

}  // namespace plimsoll::analysis::composition
