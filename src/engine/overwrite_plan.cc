#include "engine/overwrite_plan.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/progress.h"
#include "engine/load.h"
#include "model/categories.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::engine {
namespace {

bool is_exempt(const model::Trace& trace, const model::DeviceTrace& device, std::size_t lifetime) {
  constexpr std::array kExempt = {model::kParameter, model::kBuffer, model::kOptimizerState};
  const std::string_view category = trace.strings[trace.category(device, lifetime)];
  return std::ranges::find(kExempt, category) != kExempt.end() ||
         !device.lifetimes.use(lifetime).is_known();
}

void add_device(const model::Trace& trace, const model::UserLines& lines,
                const model::DeviceTrace& device, OverwritePlan& plan) {
  const model::Lifetimes& rows = device.lifetimes;
  std::vector<std::size_t> made;  // lifetimes, in order of birth
  for (std::size_t row = rows.baseline_count; row < rows.size(); ++row) {
    if (!has(rows.flags[row], model::LifetimeFlags::kAdopted)) made.push_back(row);
  }
  const auto birth = [&](std::size_t row) { return rows.alloc[row]; };
  for (const std::size_t row : made) {
    PlannedAllocation planned;
    planned.device_type = static_cast<std::uint32_t>(device.device.type);
    planned.ordinal = device.device.ordinal;
    planned.size_bytes = trace.size_bytes(device, row);
    const auto after = is_exempt(trace, device, row)
                           ? made.end()
                           : std::ranges::lower_bound(made, rows.unused_from[row], {}, birth);
    if (after != made.end()) {
      planned.unused_from = static_cast<std::uint64_t>(after - made.begin());
    }
    plan.allocations.push_back(planned);
    plan.places.push_back(lines.label(trace.stack(device, row)));
  }
}

}  // namespace

std::vector<std::size_t> OverwritePlan::overwritten() const {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (allocations[row].unused_from != PlannedAllocation::kNever) rows.push_back(row);
  }
  std::ranges::stable_sort(rows, {}, [&](std::size_t row) { return allocations[row].unused_from; });
  return rows;
}

Status OverwritePlan::write(const std::string& path, std::size_t count) const {
  std::vector<PlannedAllocation> limited = allocations;
  const std::vector<std::size_t> rows = overwritten();
  for (std::size_t i = count; i < rows.size(); ++i) {
    limited[rows[i]].unused_from = PlannedAllocation::kNever;
  }
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(limited.data()),
             static_cast<std::streamsize>(limited.size() * sizeof(PlannedAllocation)));
  file.close();
  if (!file) return make_error(ErrorCode::kIo, "cannot write " + path);
  return {};
}

Result<OverwritePlan> overwrite_plan(const model::Trace& trace) {
  if (!trace.has_uses) {
    return make_error(ErrorCode::kUnsupported, "the recording has no last uses");
  }
  const model::UserLines lines(trace);
  OverwritePlan plan;
  for (const model::DeviceTrace& device : trace.devices) {
    if (device.history == model::History::kTruncated) {
      return make_error(ErrorCode::kUnsupported, "the recording lacks its first events");
    }
    add_device(trace, lines, device, plan);
  }
  return plan;
}

Result<OverwritePlan> overwrite_plan(const std::string& path) {
  base::Progress progress;
  PLIMSOLL_TRY_ASSIGN(const Loaded loaded, load(path, progress));
  auto plan = overwrite_plan(loaded.trace);
  if (!plan) return make_error(plan.error().code, path + ": " + plan.error().message);
  return plan;
}

}  // namespace plimsoll::engine
