#include "findings/traffic.h"

#include <unordered_map>

namespace plimsoll::findings {
namespace {

using model::Action;

// Whether a convolution, of forward or backward, runs at this site.
bool is_in_convolution(const evidence::TraceFacts& of_trace, const model::Site& site) {
  return of_trace.operators.called_at(site).has(evidence::Operator::kConvolution) ||
         of_trace.stacks.has(site.stack, evidence::StackFlag::kConvolution);
}

// Counts waves. A wave ends, and is counted, at the next allocation of a segment.
class Waves {
 public:
  Waves(const model::UserLines& lines, const evidence::TraceFacts& of_trace)
      : lines_(lines), of_trace_(of_trace) {}
  void give(const model::Site& site) {
    if (is_open_) return;
    is_open_ = true;
    stack_ = site.stack;
    by_convolution_ += is_in_convolution(of_trace_, site) ? 1 : 0;
  }
  void take(Traffic& traffic) {
    if (!is_open_) return;
    is_open_ = false;
    ++traffic.waves;
    by_empty_cache_ += of_trace_.stacks.has(stack_, evidence::StackFlag::kEmptyCache) ? 1 : 0;
    const std::string line = lines_.label(stack_);
    const std::uint64_t count = ++by_line_[line];
    if (count > most_) most_ = count, traffic.line = line;
    traffic.by_empty_cache = by_empty_cache_ * 2 > traffic.waves;
    traffic.by_convolution = by_convolution_ * 2 > traffic.waves;
  }

 private:
  const model::UserLines& lines_;
  const evidence::TraceFacts& of_trace_;
  bool is_open_ = false;
  model::StackId stack_;
  std::uint64_t by_empty_cache_ = 0;
  std::uint64_t by_convolution_ = 0;
  std::uint64_t most_ = 0;
  std::unordered_map<std::string, std::uint64_t> by_line_;
};

}  // namespace

Traffic traffic_of(const model::Trace& trace, const model::UserLines& lines,
                   const evidence::TraceFacts& of_trace, const model::DeviceTrace& device) {
  const model::Events& events = device.events;
  Traffic traffic;
  Waves waves(lines, of_trace);
  for (std::size_t row = 0; row < events.size(); ++row) {
    const Action action = events.action[row];
    if (action == Action::kAlloc) {
      ++traffic.allocations;
      traffic.allocated_bytes += events.size_bytes[row];
    } else if (action == Action::kSegmentAlloc || action == Action::kSegmentMap) {
      waves.take(traffic);
      ++traffic.segments_taken;
    } else if (action == Action::kSegmentFree || action == Action::kSegmentUnmap) {
      waves.give(trace.site(device, row));
      ++traffic.segments_given;
      traffic.given_bytes += events.size_bytes[row];
    }
  }
  return traffic;
}

}  // namespace plimsoll::findings
