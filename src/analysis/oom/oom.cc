#include "analysis/oom/oom.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/oom/cause.h"
#include "analysis/oom/changes.h"
#include "analysis/oom/history.h"
#include "analysis/oom/need.h"
#include "analysis/oom/shapes.h"
#include "analysis/pinning.h"
#include "analysis/running_totals.h"
#include "analysis/steady_growth.h"
#include "base/check.h"
#include "model/heap_layout.h"
#include "model/live_set.h"

namespace plimsoll::analysis::oom {
namespace {

using model::Action;
using model::DeviceTrace;
using model::Trace;

constexpr std::array<const char*, 1> kDependsOn{"timeline"};
constexpr std::array<const char*, 1> kRunsAfter{"growth"};
constexpr std::size_t kTopLines = 5;
// A loop that catches the error and retries can cause thousands of failures. Beyond this number on
// a device, each is still listed with its totals, but without details.
constexpr std::size_t kMostExamined = 200;

// Lists all events with their totals and, as the only detail, the requesting line.
std::vector<report::OomDetails> list_ooms(const PassContext& context, const DeviceTrace& device,
                                          const report::DeviceReport& known) {
  const model::Events& events = device.events;
  const EventView view = view_of(device);
  Totals totals = baseline_totals(known.timeline);
  const auto now = [&](Series which) { return static_cast<std::int64_t>(of(totals, which)); };
  std::vector<report::OomDetails> ooms;
  for (std::size_t event = 0; event < device.events.size(); ++event) {
    view.apply_to(totals, event);
    if (events.action[event] != Action::kOom) continue;
    report::OomDetails oom;
    oom.event = event;
    if (events.time_ns[event] != model::kNoTime) oom.time_ns = events.time_ns[event];
    oom.requested_bytes = events.size_bytes[event];
    oom.device_free_bytes = events.address[event];
    const model::Shortage& shortage = context.trace.shortages[events.shortage[event].index()];
    if (shortage.total_bytes != 0) oom.device_total_bytes = shortage.total_bytes;
    if (shortage.limit_bytes != 0) oom.limit_bytes = shortage.limit_bytes;
    oom.line = context.lines.label(context.trace.site(device, event).stack);
    oom.requested_allocated_bytes = now(Series::kRequestedAllocated);
    oom.requested_active_bytes = now(Series::kRequestedActive);
    oom.reserved_bytes = now(Series::kReserved);
    ooms.push_back(std::move(oom));
  }
  return ooms;
}

// What a text states about each failure: much less than a recording does.
void set_stated_figures(std::span<const model::OomMessage* const> messages,
                        std::span<report::OomDetails> ooms) {
  PLIMSOLL_CHECK(messages.size() == ooms.size());
  for (std::size_t at = 0; at < ooms.size(); ++at) {
    ooms[at].device_free_bytes = messages[at]->free_bytes;
    ooms[at].requested_allocated_bytes.reset();
    ooms[at].requested_active_bytes.reset();
    ooms[at].reserved_bytes.reset();
    if (const auto& reserved = messages[at]->reserved_bytes) {
      ooms[at].reserved_bytes = static_cast<std::int64_t>(*reserved);
    }
  }
}

// Advances `live` (rows of lifetimes, at some earlier event) to `event`. `next_born` is the first
// row not yet visited: rows are in order of birth.
void advance_live_set(const model::Lifetimes& lifetimes, std::int64_t event,
                      std::vector<std::uint32_t>& live, std::size_t& next_born) {
  const auto is_dead = [&](std::uint32_t row) {
    return !model::is_live(lifetimes, row, model::Liveness::kActive, event);
  };
  std::erase_if(live, is_dead);
  for (; next_born < lifetimes.size(); ++next_born) {
    const std::uint32_t born = lifetimes.alloc[next_born];
    if (born != model::kNone && std::int64_t{born} > event) break;
    const auto row = static_cast<std::uint32_t>(next_born);
    if (!is_dead(row)) live.push_back(row);
  }
}

// The live bytes of each line after `event`, as the tables count them.
std::vector<report::GroupRow> sum_by_line(const Trace& trace, const DeviceTrace& device,
                                          std::span<const std::uint32_t> live, std::int64_t event,
                                          const model::UserLines& lines) {
  std::vector<report::GroupRow> rows;
  for (const std::uint32_t lifetime : live) {
    if (!model::is_live(device.lifetimes, lifetime, model::default_liveness(device), event))
      continue;
    const std::uint32_t line = lines.line(trace.stack(device, lifetime)).value;
    if (line >= rows.size()) rows.resize(line + 1);
    const std::uint64_t size = trace.lifetime_bytes(device, lifetime);
    rows[line].bytes += size;
    rows[line].count += 1;
    rows[line].largest_bytes = std::max(rows[line].largest_bytes, size);
  }
  for (std::uint32_t line = 0; line < rows.size(); ++line) {
    rows[line].device = device.device.ordinal;
    if (rows[line].count > 0) rows[line].key = lines.label(model::LineId{line});
  }
  std::erase_if(rows, [](const report::GroupRow& row) { return row.count == 0; });
  return rows;
}

// The part of the bytes in `by_line` that is due to steady growth.
std::uint64_t grown_bytes_of(const report::Tables& tables, std::int32_t device,
                             std::span<const report::GroupRow> by_line) {
  std::uint64_t sum = 0;
  for (const report::GrowthRow& row : tables.growth) {
    if (row.device != device) continue;
    auto found = std::ranges::find(by_line, row.line, &report::GroupRow::key);
    if (found != by_line.end()) sum += std::min(grown_bytes(row), found->bytes);
  }
  return sum;
}

void keep_top(std::vector<report::GroupRow>& rows) {
  std::erase_if(rows, [](const report::GroupRow& row) { return row.count == 0; });
  std::uint64_t all = 0;
  for (const auto& row : rows) all += row.bytes;
  for (auto& row : rows) {
    row.share = all > 0 ? static_cast<double>(row.bytes) / static_cast<double>(all) : 0.0;
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &report::GroupRow::bytes);
  if (rows.size() > kTopLines) rows.resize(kTopLines);
}

std::uint64_t not_negative(std::int64_t bytes) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
}

// The limit of the process; 0 if it is unknown or not below the device's memory.
std::uint64_t limit_of(const report::OomDetails& oom) {
  const std::uint64_t limit = oom.limit_bytes.value_or(0);
  return oom.device_total_bytes.value_or(0) > limit ? limit : 0;
}

// The failures whose need is estimated: the last of each burst at one line, of the last few bursts.
constexpr std::size_t kMostEstimated = 8;
std::vector<bool> to_estimate(std::span<const report::OomDetails> ooms) {
  std::vector<bool> wanted(ooms.size());
  std::size_t count = 0;
  for (std::size_t at = ooms.size(); at-- > 0 && count < kMostEstimated;) {
    wanted[at] = at + 1 == ooms.size() || ooms[at].line != ooms[at + 1].line;
    count += wanted[at] ? 1 : 0;
  }
  return wanted;
}

bool is_gpu(const DeviceTrace& device) {
  return device.device.type != model::DeviceType::kCpu &&
         device.device.type != model::DeviceType::kPinnedHost;
}

class Examiner {
 public:
  Examiner(const PassContext& context, const DeviceTrace& device)
      : context_(context), device_(device) {}

  void run(std::span<report::OomDetails> ooms) {
    std::vector<std::int64_t> events;
    for (const report::OomDetails& oom : ooms)
      events.push_back(static_cast<std::int64_t>(oom.event));
    std::vector<std::vector<model::SegmentRange>> segments(ooms.size());
    if (device_.has_final_state) {
      segments = model::segments_at(context_.trace, device_, events);
    }
    std::vector<std::uint32_t> live;
    std::size_t next_born = 0;
    const std::vector<bool> wanted = to_estimate(ooms);
    for (std::size_t at = 0; at < ooms.size(); ++at) {
      context_.progress.advance("oom", at, ooms.size());
      if (context_.progress.interrupted()) return;
      advance_live_set(device_.lifetimes, events[at], live, next_born);
      examine(ooms[at], live, std::move(segments[at]), wanted[at]);
    }
  }

 private:
  void examine(report::OomDetails& oom, std::span<const std::uint32_t> live,
               std::vector<model::SegmentRange> segments, bool is_estimated) {
    const Trace& trace = context_.trace;
    const model::Site& site = trace.site(device_, oom.event);
    const Request request{oom.requested_bytes, site.stream, site.pool};
    const auto layout = model::layout_of(trace, device_, std::move(segments), live);
    const Pinning pinning = find_pinning(trace, layout, context_.lines, request);
    oom.largest_free_bytes = pinning.largest_free_bytes;
    oom.largest_usable_bytes = pinning.largest_usable_bytes;
    oom.stranded_bytes = pinning.stranded_bytes;
    oom.joinable_bytes = pinning.joinable_bytes;
    oom.pinning_lines = pinning.lines;
    oom.lone_blocks = pinning.lone_blocks;
    oom.top_lines =
        sum_by_line(trace, device_, live, static_cast<std::int64_t>(oom.event), context_.lines);
    oom.grown_bytes = grown_bytes_of(context_.report.tables, device_.device.ordinal, oom.top_lines);
    keep_top(oom.top_lines);
    oom.private_idle_bytes = pinning.cached_bytes - pinning.reachable_bytes;
    oom.private_pools = pools_text(trace, pinning.private_pools);
    OomFacts facts{.requested_bytes = oom.requested_bytes,
                   .device_free_bytes = oom.device_free_bytes.value_or(0),
                   .reserved_bytes = not_negative(oom.reserved_bytes.value_or(0)),
                   .live_bytes = not_negative(oom.requested_active_bytes.value_or(0)),
                   .reachable_free_bytes = pinning.reachable_bytes,
                   .unreachable_free_bytes = oom.private_idle_bytes,
                   .largest_usable_bytes = oom.largest_usable_bytes,
                   .stranded_bytes = std::min(oom.stranded_bytes, pinning.reachable_bytes),
                   .grown_bytes = oom.grown_bytes,
                   .limit_bytes = limit_of(oom),
                   .is_cpu = !is_gpu(device_)};
    if (is_estimated && is_gpu(device_)) {
      oom.need = estimate(oom, available_bytes(facts));
      facts.needed_bytes = oom.need.bytes.value_or(0);
    }
    oom.cause = cause_of(facts);
    oom.is_limited = is_limited(facts);
  }

  report::OomNeed estimate(const report::OomDetails& oom, std::uint64_t available) {
    if (!history_) history_.emplace(context_.trace, device_, context_.lines);
    const auto event = static_cast<std::uint32_t>(oom.event);
    const Need need = estimate_need(*history_, {event, oom.requested_bytes});
    const Step failed = history_->step_of(event);
    const Inputs inputs = inputs_of(*history_, failed, event);
    report::OomNeed result;
    result.basis = need.basis;
    result.why_unknown = need.why_unknown;
    result.available_bytes = available;
    result.batch_size = inputs.batch_size;
    result.input_shape = inputs.largest;
    result.new_caller = need.new_caller;
    result.caller_bytes = need.caller_bytes;
    if (!need.is_known()) return result;
    result.bytes = need.bytes;
    result.ratio = need.ratio;
    if (need.state_bytes > 0) result.state_bytes = need.state_bytes;
    std::uint64_t scaling = 0;
    for (const Part& part : need.parts) scaling += part.scales ? part.bytes : 0;
    result.scaling_bytes = scaling;
    if (need.scratch_bytes > 0) result.scratch_bytes = need.scratch_bytes;
    if (need.counterpart) {
      const Made& before = history_->made()[*need.counterpart];
      result.earlier_request_bytes = before.requested_bytes;
      result.earlier_input_shape = inputs_of(*history_, need.earlier, before.born).largest;
    }
    result.changes = changes_for(*history_, need, available, result.batch_size);
    return result;
  }

  const PassContext& context_;
  const DeviceTrace& device_;
  std::optional<History> history_;  // made for the first estimate
};

class OomPass final : public Pass {
 public:
  const char* name() const override { return "oom"; }
  std::span<const char* const> depends_on() const override { return kDependsOn; }
  std::span<const char* const> runs_after() const override { return kRunsAfter; }
  OptionSet uses() const override { return OptionSet::kDevice; }
  void clear(report::Report& report) const override {
    for (report::DeviceReport& device : report.devices) {
      device.ooms.clear();
      device.oom_details.clear();
    }
  }
  Status run(PassContext& context) const override {
    const Trace& trace = context.trace;
    PLIMSOLL_CHECK(context.report.devices.size() == trace.devices.size());
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      const DeviceTrace& device = trace.devices[d];
      if (context.options.device && *context.options.device != device.device) continue;
      auto& ooms = context.report.devices[d].oom_details;
      ooms = list_ooms(context, device, context.report.devices[d]);
      const auto messages = trace.messages_about(device.device);
      if (!messages.empty()) set_stated_figures(messages, ooms);
      for (const report::OomDetails& oom : ooms) {
        context.report.devices[d].ooms.push_back(
            report::Oom{oom.event, oom.time_ns, oom.requested_bytes, oom.device_free_bytes});
      }
      if (!messages.empty()) continue;  // nothing to examine
      const std::size_t examined = std::min(ooms.size(), kMostExamined);
      Examiner(context, device).run(std::span(ooms).first(examined));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Pass> make() { return std::make_unique<OomPass>(); }

}  // namespace plimsoll::analysis::oom
