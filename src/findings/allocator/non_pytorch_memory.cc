// non_pytorch_memory: the process uses memory of the GPU that PyTorch's allocator did not request,
// according to the driver's figures for this process. Other processes never count.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/growth_rule.h"
#include "base/units.h"
#include "findings/rules.h"
#include "findings/text.h"
#include "model/steps.h"

namespace plimsoll::findings {
namespace {

// CUDA loads kernels when they are first used: about 250 MiB for cuBLAS and cuDNN together. Such
// growth ends; smaller growth cannot be distinguished from it.
constexpr std::int64_t kLeastGrownBytes = std::int64_t{256} << 20;
// The number of readings after the warm-up, so that growth appears in two spans of time.
constexpr std::size_t kFewestReadings = 3;
// A library that starts late adds its memory in one span.
constexpr double kMostInOneSpan = 0.75;
// The threshold without growth: more than libraries need for their kernels and a communicator.
constexpr std::int64_t kMuchOutsideBytes = std::int64_t{1} << 30;
constexpr double kMuchOutsideShare = 0.1;

struct Outside {
  std::size_t step = 0;  // steps that had ended
  std::int64_t bytes = 0;
  std::int64_t own_bytes = 0;
};

std::int64_t as_signed(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  return static_cast<std::int64_t>(std::min(bytes, kMost));
}

// The driver's readings, minus what the allocator has reserved then; in order of time.
std::vector<Outside> outside_of(const Facts& facts, const DeviceFacts& device) {
  using enum model::Action;
  std::vector<Outside> all;
  if (device.report.reserved.peak_bytes <= 0) return all;  // the allocator is unknown
  const std::vector<model::StepEnd> steps = model::step_ends(facts.trace, device.trace);
  const model::Events& events = device.trace.events;
  std::int64_t reserved = device.report.reserved.baseline_bytes;
  std::size_t next = 0;
  for (const model::DeviceReading& reading : facts.trace.readings) {
    if (reading.device != device.trace.device) continue;
    for (; next < std::min<std::size_t>(reading.events_before, events.size()); ++next) {
      const model::Action action = events.action[next];
      const std::int64_t size = as_signed(events.size_bytes[next]);
      if (action == kSegmentAlloc || action == kSegmentMap) reserved += size;
      if (action == kSegmentFree || action == kSegmentUnmap) reserved -= size;
    }
    if (!reading.figures.own_bytes) continue;
    const std::int64_t own = as_signed(*reading.figures.own_bytes);
    const auto ended =
        std::ranges::upper_bound(steps, reading.time_ns, {}, &model::StepEnd::time_ns);
    all.push_back({static_cast<std::size_t>(ended - steps.begin()),
                   own - reserved - as_signed(reading.figures.context_bytes.value_or(0)), own});
  }
  return all;
}

// The readings after the warm-up, if the memory grows in them; else empty.
std::vector<Outside> growing(const std::vector<Outside>& all, std::size_t steps) {
  std::vector<Outside> later;
  for (const Outside& each : all) {
    const bool is_new = later.empty() || later.back().step < each.step;
    if (each.step > 0 && each.step * 4 >= steps && is_new) later.push_back(each);
  }
  if (steps < base::kFewestGrowthSteps || later.size() < kFewestReadings) return {};
  const std::int64_t grown = later.back().bytes - later.front().bytes;
  if (grown < kLeastGrownBytes) return {};
  for (std::size_t i = 1; i < later.size(); ++i) {
    const std::int64_t more = later[i].bytes - later[i - 1].bytes;
    const bool is_jump = static_cast<double>(more) > kMostInOneSpan * static_cast<double>(grown);
    if (more <= 0 || is_jump) return {};
  }
  return later;
}

report::Finding of_growth(const DeviceFacts& device, const std::vector<Outside>& readings) {
  const Outside& first = readings.front();
  const Outside& last = readings.back();
  const std::int64_t grown = last.bytes - first.bytes;
  const double rate = static_cast<double>(grown) / static_cast<double>(last.step - first.step);
  return {
      "non_pytorch_memory",
      report::FindingSeverity::kWarning,
      "Memory of this process outside PyTorch on " + device.name + " grows by " + rate_text(rate) +
          ", to " + bytes_text(last.bytes),
      {"It was " + bytes_text(first.bytes) + " after step " + base::format_count(first.step) +
       " and " + bytes_text(last.bytes) + " after step " + base::format_count(last.step) +
       ", and rose between all " + counted(readings.size(), "reading") + "."},
      {step_up_to("Free what other libraries keep on the GPU from step to step: arrays of CuPy, "
                  "Numba, JAX or an extension in a list, dict or attribute.",
                  static_cast<std::uint64_t>(grown))}};
}

}  // namespace

void non_pytorch_memory(const Facts& facts, const DeviceFacts& device, Findings& out) {
  const std::vector<Outside> all = outside_of(facts, device);
  if (all.empty()) return;
  const Outside& most = *std::ranges::max_element(all, {}, &Outside::bytes);
  const bool is_much =
      most.bytes >= kMuchOutsideBytes &&
      is_at_least(not_negative(most.bytes), kMuchOutsideShare, not_negative(most.own_bytes));
  const std::vector<Outside> later =
      growing(all, model::step_ends(facts.trace, device.trace).size());
  if (later.empty() && !is_much) return;
  report::Finding finding;
  if (!later.empty()) {
    finding = of_growth(device, later);
  } else {
    finding = {"non_pytorch_memory",
               report::FindingSeverity::kInfo,
               bytes_text(most.bytes) + " of the " + bytes_text(most.own_bytes) +
                   " that this process uses on " + device.name + " are outside PyTorch",
               {},
               {{"If another library shares the GPU (CuPy, JAX, TensorRT, NCCL, an extension), "
                 "limit what it keeps: its memory pool is not PyTorch's, and " +
                 facts.names.module + ".empty_cache() does not release it."}}};
  }
  finding.evidence.emplace_back(
      "This is the driver's figure for this process, minus what PyTorch's allocator has reserved "
      "and what CUDA took when it started. PyTorch did not allocate this memory, so no line is "
      "known.");
  finding.steps.push_back(
      {"Record with plimsoll run --cuda-driver -- PROGRAM to see which library allocates it."});
  out.push_back(std::move(finding));
}

}  // namespace plimsoll::findings
