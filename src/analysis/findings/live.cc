#include "analysis/findings/live.h"

#include <algorithm>

namespace plimsoll::analysis::findings {

const report::MomentRow* peak_moment(const Facts& facts, const DeviceFacts& device) {
  const auto& moments = facts.report.tables.moments;
  const auto moment = std::ranges::find(moments, device.report.device, &report::MomentRow::device);
  const bool is_peak = moment != moments.end() && moment->name == "peak";
  return is_peak ? &*moment : nullptr;
}

const report::MomentRow* own_peak(const Facts& facts, const DeviceFacts& device) {
  return facts.trace.has_phases() ? peak_moment(facts, device) : nullptr;
}

}  // namespace plimsoll::analysis::findings
