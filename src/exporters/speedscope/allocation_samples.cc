#include "exporters/speedscope/allocation_samples.h"

namespace plimsoll::exporters::speedscope {
namespace {

// Calls add(stack, bytes, is_first_in_window) for each allocation.
template <typename Add>
void visit_allocations(const model::Trace& trace, const model::DeviceTrace& device,
                       std::size_t window, std::vector<std::size_t>& last_window, Add&& add) {
  last_window.assign(trace.stacks.stack_count(), 0);
  std::size_t allocations = 0;
  const model::Events& events = device.events;
  for (std::size_t row = 0; row < events.size(); ++row) {
    if (events.action[row] != model::Action::kAlloc) continue;
    const std::size_t number = 1 + allocations++ / window;
    const model::StackId stack = trace.site(device, row).stack;
    std::size_t& last = last_window[stack.index()];
    add(stack, events.size_bytes[row], last != number);
    last = number;
  }
}

}  // namespace

std::vector<Sample> allocation_samples(const model::Trace& trace, const model::DeviceTrace& device,
                                       std::size_t most) {
  std::vector<std::size_t> last_window;
  std::size_t window = 1;
  for (std::size_t count = 0;; window *= 2, count = 0) {
    visit_allocations(trace, device, window, last_window,
                      [&](model::StackId, std::uint64_t, bool is_first) { count += is_first; });
    if (count <= most || window >= device.events.size()) break;
  }
  std::vector<Sample> samples;
  std::vector<std::size_t> sample_of(trace.stacks.stack_count());
  visit_allocations(trace, device, window, last_window,
                    [&](model::StackId stack, std::uint64_t bytes, bool is_first) {
                      if (is_first) {
                        sample_of[stack.index()] = samples.size();
                        samples.push_back(Sample{stack, 0});
                      }
                      samples[sample_of[stack.index()]].bytes += bytes;
                    });
  return samples;
}

}  // namespace plimsoll::exporters::speedscope
