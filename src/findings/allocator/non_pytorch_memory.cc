// non_pytorch_memory: the process uses memory of the GPU that PyTorch's allocator did not request,
// according to the driver's figures for this process. Other processes never count.
#include <algorithm>
#include <cstdint>
#include <optional>
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

// The bytes that the allocator reserves, advanced from one reading to the next.
class Reserved {
 public:
  explicit Reserved(const DeviceFacts& device)
      : events_(device.trace.events), bytes_(device.report.reserved.baseline_bytes) {}

  std::int64_t before(std::uint32_t event) {
    for (; next_ < std::min<std::size_t>(event, events_.size()); ++next_) {
      const std::int64_t size = as_signed(events_.size_bytes[next_]);
      const model::Action action = events_.action[next_];
      using enum model::Action;
      if (action == kSegmentAlloc || action == kSegmentMap) bytes_ += size;
      if (action == kSegmentFree || action == kSegmentUnmap) bytes_ -= size;
    }
    return bytes_;
  }

 private:
  const model::Events& events_;
  std::int64_t bytes_;
  std::size_t next_ = 0;
};

// In order of time.
std::vector<Outside> outside_of(const Facts& facts, const DeviceFacts& device) {
  std::vector<Outside> all;
  if (device.report.reserved.peak_bytes <= 0) return all;  // the allocator is unknown
  const std::vector<model::StepEnd> steps = model::step_ends(facts.trace, device.trace);
  Reserved reserved(device);
  for (const model::DeviceReading& reading : facts.trace.readings) {
    if (reading.device != device.trace.device) continue;
    const std::int64_t ours = reserved.before(reading.events_before);
    if (!reading.figures.own_bytes) continue;
    const std::int64_t own = as_signed(*reading.figures.own_bytes);
    const auto ended =
        std::ranges::upper_bound(steps, reading.time_ns, {}, &model::StepEnd::time_ns);
    all.push_back({static_cast<std::size_t>(ended - steps.begin()),
                   own - ours - as_signed(reading.figures.context_bytes.value_or(0)), own});
  }
  return all;
}

// The readings after the warm-up, if the memory grows in them; else empty.
std::vector<Outside> growing(const std::vector<Outside>& all, std::size_t steps) {
  std::vector<Outside> later;
  if (steps < base::kFewestGrowthSteps) return later;
  for (const Outside& each : all) {
    const bool is_new = later.empty() || later.back().step < each.step;
    if (each.step > 0 && each.step * 4 >= steps && is_new) later.push_back(each);
  }
  if (later.size() < kFewestReadings) return {};
  const std::int64_t grown = later.back().bytes - later.front().bytes;
  if (grown < kLeastGrownBytes) return {};
  for (std::size_t i = 1; i < later.size(); ++i) {
    const std::int64_t more = later[i].bytes - later[i - 1].bytes;
    const bool is_jump = static_cast<double>(more) > kMostInOneSpan * static_cast<double>(grown);
    if (more <= 0 || is_jump) return {};
  }
  return later;
}

std::string after_steps(const std::vector<Outside>& readings) {
  std::string text;
  const std::size_t middle = readings.size() / 2;
  for (const std::size_t i : {std::size_t{0}, middle, readings.size() - 1}) {
    text += (i == 0 ? "" : ", ") + bytes_text(readings[i].bytes) + " after step " +
            base::format_count(readings[i].step);
  }
  return text;
}

// Evidence that both findings share.
constexpr const char* kWhatItIs =
    "This is the driver's figure for this process, minus what PyTorch's allocator has reserved and "
    "what CUDA took when it started. PyTorch did not allocate this memory, so no line is known.";
constexpr const char* kHowToSee =
    "Record with plimsoll run --cuda-driver -- PROGRAM to see which library allocates it.";

report::Finding growth(const DeviceFacts& device, const std::vector<Outside>& readings) {
  const std::int64_t grown = readings.back().bytes - readings.front().bytes;
  const auto steps = static_cast<double>(readings.back().step - readings.front().step);
  report::Finding finding;
  finding.severity = report::FindingSeverity::kWarning;
  finding.title = "Memory of this process outside PyTorch on " + device.name + " grows by " +
                  rate_text(static_cast<double>(grown) / steps) + ", to " +
                  bytes_text(readings.back().bytes);
  finding.evidence.push_back("It was " + after_steps(readings) + " (3 of " +
                             counted(readings.size(), "reading") + " after the warm-up).");
  finding.steps = {
      step_up_to("Free what other libraries keep on the GPU from step to step: arrays of CuPy, "
                 "Numba, JAX or an extension in a list, dict or attribute.",
                 static_cast<std::uint64_t>(grown)),
      {kHowToSee}};
  return finding;
}

report::Finding level(const DeviceFacts& device, const Outside& most, bool has_nccl,
                      const AcceleratorNames& names) {
  report::Finding finding;
  finding.title = bytes_text(most.bytes) + " of the " + bytes_text(most.own_bytes) +
                  " that this process uses on " + device.name + " are outside PyTorch";
  if (has_nccl) {
    finding.evidence.emplace_back(
        "The process uses NCCL, whose communicators take a few hundred MiB each.");
  }
  finding.steps = {
      {"If another library shares the GPU (CuPy, JAX, TensorRT, NCCL, an extension), limit what it "
       "keeps: its memory pool is not PyTorch's, and " +
       names.module + ".empty_cache() does not release it."},
      {kHowToSee}};
  return finding;
}

}  // namespace

Findings non_pytorch_memory(const Facts& facts) {
  Findings findings;
  for (const DeviceFacts& device : devices_of(facts)) {
    const std::vector<Outside> all = outside_of(facts, device);
    if (all.empty()) continue;
    const auto steps = model::step_ends(facts.trace, device.trace).size();
    const Outside& most = *std::ranges::max_element(all, {}, &Outside::bytes);
    const bool is_much = most.bytes >= kMuchOutsideBytes &&
                         is_at_least(static_cast<std::uint64_t>(most.bytes), kMuchOutsideShare,
                                     static_cast<std::uint64_t>(most.own_bytes));
    const std::vector<Outside> later = growing(all, steps);
    if (later.empty() && !is_much) continue;
    const bool has_nccl = std::ranges::any_of(facts.trace.readings, [&](const auto& reading) {
      return reading.device == device.trace.device && reading.figures.has_nccl;
    });
    report::Finding finding =
        later.empty() ? level(device, most, has_nccl, facts.names) : growth(device, later);
    finding.id = "non_pytorch_memory";
    finding.evidence.emplace_back(kWhatItIs);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plimsoll::findings
