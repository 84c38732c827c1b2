#include "analysis/findings/appending.h"

#include <cstdint>

#include "analysis/joining.h"

namespace plimsoll::analysis::findings {

std::size_t times_appended(const Peak& peak, const PeakAllocation& largest) {
  constexpr std::size_t kFewest = 8;
  const model::Trace& trace = peak.trace();
  const model::DeviceTrace& device = peak.device().trace;
  if (largest.born == model::kNone || !joins(trace, device, largest.lifetime)) return 0;
  const model::StringId op = peak.site(largest).op;
  const model::LineId line = peak.line(largest);
  std::size_t times = 0;
  std::uint64_t before = 0;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (allocation.born > peak.event() || allocation.size_bytes < kSmallTensorBytes) return;
    if (peak.site(allocation).op != op || peak.line(allocation) != line) return;
    times = allocation.size_bytes > before ? times + 1 : 0;
    before = allocation.size_bytes;
  });
  return times >= kFewest ? times : 0;
}

}  // namespace plimsoll::analysis::findings
