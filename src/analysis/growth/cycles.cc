#include "analysis/growth/cycles.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::analysis::growth {
namespace {

using model::Action;

constexpr std::size_t kSamples = 1 << 16;
constexpr std::size_t kFewestValleys = 8;

struct Sample {
  std::uint32_t event;  // the point before this event
  double bytes;         // since the beginning of the recording
};

struct Valley {
  Sample bottom;
  double fall_bytes;  // from the previous peak
};

// Sums wrap: a hostile file may have any size.
double as_bytes(std::uint64_t total) {
  return static_cast<double>(static_cast<std::int64_t>(total));
}

std::vector<Sample> sample_total(const model::DeviceTrace& device) {
  std::vector<Sample> samples;
  const Action* const action = device.events.action.data();
  const std::uint64_t* const size = device.events.size_bytes.data();
  const auto count = static_cast<std::uint32_t>(device.events.size());
  const auto every = static_cast<std::uint32_t>(count / kSamples + 1);
  std::uint64_t total = 0;
  std::uint32_t next = 0;
  for (std::uint32_t event = 0; event < count; ++event) {
    if (event == next) {
      samples.push_back(Sample{event, as_bytes(total)});
      next += every;
    }
    // Branch-free, because the order of allocs and frees is unpredictable.
    total += size[event] * (action[event] == Action::kAlloc ? 1 : 0);
    total -= size[event] * (is_free_requested(action[event]) ? 1 : 0);
  }
  samples.push_back(Sample{count, as_bytes(total)});
  return samples;
}

// Minima between a fall and a rise of at least `least` bytes each.
std::vector<Valley> valleys_of(const std::vector<Sample>& samples, double least) {
  std::vector<Valley> valleys;
  const auto is_far = [least](double from, double to) { return to - from >= least; };
  Sample top = samples.front();
  Sample bottom = samples.front();
  bool is_falling = false;
  for (const Sample& now : samples) {
    if (!is_falling) {
      if (now.bytes > top.bytes) top = now;
      if (is_far(now.bytes, top.bytes)) is_falling = true, bottom = now;
      continue;
    }
    if (now.bytes < bottom.bytes) bottom = now;
    if (is_far(bottom.bytes, now.bytes)) {
      valleys.push_back(Valley{bottom, top.bytes - bottom.bytes});
      is_falling = false;
      top = now;
    }
  }
  return valleys;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Whether falls are at least twice as large as the difference between successive valleys.
bool are_steps(const std::vector<Valley>& valleys) {
  if (valleys.size() < kFewestValleys) return false;
  std::vector<double> falls;
  std::vector<double> changes;
  for (std::size_t i = 1; i < valleys.size(); ++i) {
    falls.push_back(valleys[i].fall_bytes);
    changes.push_back(std::fabs(valleys[i].bottom.bytes - valleys[i - 1].bottom.bytes));
  }
  return median(falls) / 2 >= median(changes);
}

}  // namespace

std::vector<std::uint32_t> find_valleys(const model::DeviceTrace& device) {
  const auto samples = sample_total(device);
  const auto [low, high] = std::ranges::minmax(samples, {}, &Sample::bytes);
  const double range = high.bytes - low.bytes;
  // Search for deep cycles first, because shallower ones inside a step are layers.
  for (const double share : {0.5, 0.25, 0.125, 0.0625}) {
    const auto valleys = valleys_of(samples, range * share);
    if (range <= 0 || !are_steps(valleys)) continue;
    std::vector<std::uint32_t> events;
    for (const Valley& valley : valleys) {
      if (valley.bottom.event > 0) events.push_back(valley.bottom.event);
    }
    return events;
  }
  return {};
}

}  // namespace plimsoll::analysis::growth
