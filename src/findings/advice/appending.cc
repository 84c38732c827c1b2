#include "findings/advice/appending.h"

#include <cstddef>
#include <cstdint>
#include <deque>

namespace plimsoll::findings {
namespace {

struct Extended {
  std::uint64_t size_bytes = 0;
  std::uint32_t died = 0;
  std::size_t times = 0;
};

}  // namespace

std::size_t times_appended(const Peak& peak, const PeakAllocation& largest) {
  constexpr std::size_t kFewest = 8;
  constexpr std::size_t kMostLatest = 8;
  if (largest.born == model::kNone) return 0;
  if (!peak.evidence().called_ops(largest.lifetime).has(evidence::Operator::kJoining)) return 0;
  const model::StringId op = peak.site(largest).op;
  const model::LineId line = peak.line(largest);
  // The tensors that the next one may extend: a line may make several longer in turn.
  std::deque<Extended> latest;
  std::size_t times = 0;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (allocation.born > largest.born || allocation.size_bytes < kSmallTensorBytes) return;
    if (peak.site(allocation).op != op || peak.line(allocation) != line) return;
    const Extended* before = nullptr;
    for (const Extended& each : latest) {
      if (each.died < allocation.born || each.size_bytes >= allocation.size_bytes) continue;
      if (before == nullptr || each.size_bytes > before->size_bytes) before = &each;
    }
    times = before == nullptr ? 1 : before->times + 1;
    if (latest.size() == kMostLatest) latest.pop_front();
    latest.push_back({allocation.size_bytes, allocation.died, times});
  });
  return times >= kFewest ? times : 0;
}

}  // namespace plimsoll::findings
