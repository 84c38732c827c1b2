#include "analysis/composition/composition.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/composition/groups.h"
#include "analysis/composition/live_allocations.h"
#include "analysis/composition/moment.h"
#include "analysis/composition/names.h"
#include "model/live_set.h"

namespace plimsoll::analysis::composition {
namespace {

using model::Trace;
using report::GroupRow;
using report::MomentRow;
using Table = std::vector<GroupRow>;

MomentRow moment_row(const PassContext& context, std::size_t d, const FoundMoment& moment,
                     std::span<const LiveAllocation> live) {
  const model::DeviceTrace& device = context.trace.devices[d];
  MomentRow row;
  row.device = device.device.ordinal;
  row.name = moment.name;
  if (moment.event != model::kBeforeFirst) {
    row.event = static_cast<std::uint64_t>(moment.event);
    const std::int64_t time_ns = context.trace.events.time_ns[device.first_event + *row.event];
    if (time_ns != model::kNoTime) row.time_ns = time_ns;
  }
  row.live_count = live.size();
  for (const LiveAllocation& allocation : live) row.live_bytes += allocation.size_bytes;
  const std::int64_t total =
      active_bytes_at(context.trace, device, context.report.devices[d], moment.event);
  row.unexplained_bytes =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(total) - row.live_bytes);
  return row;
}

// The tables of one device at its moment.
class DeviceTables {
 public:
  DeviceTables(PassContext& context, const MomentRow& moment, std::span<const LiveAllocation> live)
      : context_(context), trace_(context.trace), moment_(moment), live_(live) {}

  void fill(report::Tables& tables) {
    by_line(tables.by_line);
    by_stack(tables.by_stack);
    by_operator(tables.by_operator);
    group(
        kSizeClasses, [](const auto& live) { return size_class(live.size_bytes); }, size_class_name,
        tables.by_size);
    group(
        trace_.streams.size(), [](const auto& live) { return live.stream.value; },
        [&](auto id) { return "stream " + std::to_string(trace_.streams[id]); }, tables.by_stream);
    if (trace_.pools.size() > 1) {
      group(
          trace_.pools.size(), [](const auto& live) { return live.pool.value; },
          [&](auto id) { return pool_name(trace_, model::PoolId{id}); }, tables.by_pool);
    }
    if (trace_.events.category.present()) {
      group(
          trace_.strings.size(), [](const auto& live) { return live.category.value; },
          [&](auto id) { return word(id, "unknown"); }, tables.by_category);
    }
    if (trace_.events.layer.present()) {
      group(
          trace_.strings.size(), [](const auto& live) { return live.layer.value; },
          [&](auto id) { return word(id, "[no layer]"); }, tables.by_layer);
    }
  }

 private:
  template <typename IdOf, typename NameOf>
  void group(std::size_t id_count, IdOf&& id_of, NameOf&& name_of, Table& out) {
    describe_groups(
        id_count, id_of, [&](std::uint32_t id, GroupRow& row) { row.key = name_of(id); }, out);
  }

  template <typename IdOf>
  void describe_groups(std::size_t id_count, IdOf&& id_of, const Describe& describe, Table& out) {
    Groups groups(id_count);
    for (const LiveAllocation& live : live_) groups.add(id_of(live), live.size_bytes);
    append_rows(groups.take(), context_.options.top, moment_, describe, out);
  }

  void by_line(Table& out) {
    group(
        context_.lines.line_count() + 1, [](const auto& live) { return live.line.value; },
        [&](auto id) { return line_name(model::LineId{id}); }, out);
  }

  // The stack "none" stands for two things here; the one past the last is "before recording".
  void by_stack(Table& out) {
    const auto stack_count = static_cast<std::uint32_t>(trace_.stacks.stack_count());
    const model::LineId before = before_recording(context_.lines);
    describe_groups(
        stack_count + 1,
        [&](const LiveAllocation& live) {
          return live.line == before ? stack_count : live.stack.value;
        },
        [&](std::uint32_t id, GroupRow& row) {
          row.key = line_name(id == stack_count ? before : context_.lines.line(model::StackId{id}));
          if (id == stack_count) return;
          for (const model::FrameId frame : trace_.stacks.frames(model::StackId{id})) {
            row.stack.push_back(frame_name(trace_, frame));
          }
        },
        out);
  }

  void by_operator(Table& out) {
    OperatorIds operators(trace_);
    std::vector<std::uint32_t> ids;
    ids.reserve(live_.size());
    for (const LiveAllocation& live : live_) ids.push_back(operators.id(live.op, live.stack));
    std::size_t next = 0;
    group(
        operators.size(), [&](const auto&) { return ids[next++]; },
        [&](auto id) { return operators.name(id); }, out);
  }

  std::string line_name(model::LineId line) const {
    if (line == before_recording(context_.lines)) return "[allocated before recording]";
    return context_.lines.label(line);
  }

  std::string word(std::uint32_t id, const char* if_none) const {
    return id == 0 ? if_none : std::string(trace_.strings[model::StringId{id}]);
  }

  PassContext& context_;
  const Trace& trace_;
  const MomentRow& moment_;
  std::span<const LiveAllocation> live_;
};

class CompositionPass final : public Pass {
 public:
  const char* name() const override { return "composition"; }
  std::span<const char* const> depends_on() const override {
    static constexpr const char* kNames[] = {"timeline"};
    return kNames;
  }
  Status run(PassContext& context) const override {
    auto moments = find_moments(context);
    if (!moments) return std::move(moments).error();
    report::Tables& tables = context.report.tables;
    for (std::size_t d = 0; d < context.trace.devices.size(); ++d) {
      const auto& moment = (*moments)[d];
      if (!moment || context.progress.interrupted()) continue;
      const auto live =
          live_allocations(context.trace, context.trace.devices[d], context.lines, moment->event);
      const MomentRow row = moment_row(context, d, *moment, live);
      DeviceTables(context, row, live).fill(tables);
      tables.moments.push_back(row);
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<CompositionPass>(); }

}  // namespace plimsoll::analysis::composition
