#include "findings/growth/retained.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::findings {
namespace {

// Bytes of activations, by plimsoll_autograd.
using AutogradBytes = std::array<std::uint64_t, base::kAutogradNames.size()>;

// The lines of the rows, by id; empty if the rows name none.
std::vector<bool> lines_of_rows(const Facts& facts, std::span<const report::GrowthRow> rows) {
  const auto names = [&](std::uint32_t id) {
    const std::string label = facts.lines.label(model::LineId{id});
    return std::ranges::any_of(
        rows, [&](const report::GrowthRow& row) { return !row.line.empty() && row.line == label; });
  };
  std::vector<bool> is_named(facts.lines.line_count());
  bool is_any = false;
  for (std::uint32_t id = 0; id < is_named.size(); ++id) {
    is_named[id] = names(id);
    is_any = is_any || is_named[id];
  }
  return is_any ? is_named : std::vector<bool>();
}

AutogradBytes autograd_bytes(const Facts& facts, const DeviceFacts& device, std::uint64_t event,
                             const std::vector<bool>& lines) {
  const model::Trace& trace = facts.trace;
  AutogradBytes bytes{};
  for (const std::uint32_t lifetime : model::live_set(
           device.trace, model::default_liveness(device.trace), static_cast<std::int64_t>(event))) {
    if (trace.strings[trace.category(device.trace, lifetime)] != model::kActivation) continue;
    const model::LineId line = facts.lines.line(trace.stack(device.trace, lifetime));
    if (!lines.empty() && !lines[line.value]) continue;
    const auto state = static_cast<std::size_t>(trace.birth(device.trace, lifetime).autograd);
    bytes[state] += trace.lifetime_bytes(device.trace, lifetime);
  }
  return bytes;
}

}  // namespace

Retained retained_by(const Facts& facts, const DeviceFacts& device,
                     std::span<const report::GrowthRow> rows) {
  const Retained retained =
      retained_in(growing_category(facts.report.tables, device.report.device));
  const std::optional<std::uint64_t> peak = device.report.live_totals().peak_event;
  const bool is_known = facts.trace.sites.states(&model::Site::autograd);
  if (retained != Retained::kGraphs || !peak || !is_known) return retained;
  const auto [unknown, off, on, built] =
      autograd_bytes(facts, device, *peak, lines_of_rows(facts, rows));
  // A training step may run at the peak, with activations of the same lines.
  const bool is_mostly_off = off > unknown + on + built;
  const bool is_without_nodes = off + on > 0 && unknown + built == 0;
  return is_mostly_off || is_without_nodes ? Retained::kMadeWithoutGraph : retained;
}

}  // namespace plimsoll::findings
