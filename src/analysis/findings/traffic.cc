#include "analysis/findings/traffic.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll::analysis::findings {
namespace {

using model::Action;

// Matches the Python function or its C++ counterpart, whichever the stacks show.
bool calls_empty_cache(const model::Trace& trace, model::StackId stack) {
  return std::ranges::any_of(trace.stacks.frames(stack), [&](model::FrameId id) {
    const std::string_view function = trace.strings[trace.stacks.frame(id).function];
    return function.find("empty_cache") != std::string_view::npos ||
           function.find("emptyCache") != std::string_view::npos;
  });
}

// Whether a convolution runs at this site, judged by its operator (of forward or backward) or by
// the stack.
bool is_in_convolution(const model::Trace& trace, const model::Site& site) {
  for (const model::StringId op : {site.op, site.inner_op}) {
    const std::string_view name = trace.strings[op];
    if (name.starts_with("aten::conv") || name.starts_with("aten::cudnn_conv") ||
        name.starts_with("Convolution") || name.starts_with("CudnnConv")) {
      return true;
    }
  }
  return std::ranges::any_of(trace.stacks.frames(site.stack), [&](model::FrameId id) {
    const std::string_view function = trace.strings[trace.stacks.frame(id).function];
    return function.find("_conv_forward") != std::string_view::npos ||
           function.find("cudnn_convolution") != std::string_view::npos;
  });
}

// Counts waves. A wave ends, and is counted, at the next allocation of a segment.
class Waves {
 public:
  Waves(const model::Trace& trace, const model::UserLines& lines) : trace_(trace), lines_(lines) {}
  void give(const model::Site& site) {
    if (is_open_) return;
    is_open_ = true;
    stack_ = site.stack;
    by_convolution_ += is_in_convolution(trace_, site) ? 1 : 0;
  }
  void take(Traffic& traffic) {
    if (!is_open_) return;
    is_open_ = false;
    ++traffic.waves;
    by_empty_cache_ += calls_empty_cache(trace_, stack_) ? 1 : 0;
    const std::string line = lines_.label(stack_);
    const std::uint64_t count = ++by_line_[line];
    if (count > most_) most_ = count, traffic.line = line;
    traffic.by_empty_cache = by_empty_cache_ * 2 > traffic.waves;
    traffic.by_convolution = by_convolution_ * 2 > traffic.waves;
  }

 private:
  const model::Trace& trace_;
  const model::UserLines& lines_;
  bool is_open_ = false;
  model::StackId stack_;
  std::uint64_t by_empty_cache_ = 0;
  std::uint64_t by_convolution_ = 0;
  std::uint64_t most_ = 0;
  std::unordered_map<std::string, std::uint64_t> by_line_;
};

}  // namespace

Traffic traffic_of(const model::Trace& trace, const model::UserLines& lines,
                   const model::DeviceTrace& device) {
  const model::Events& events = device.events;
  Traffic traffic;
  Waves waves(trace, lines);
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

}  // namespace plimsoll::analysis::findings
