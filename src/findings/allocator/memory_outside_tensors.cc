// memory_outside_tensors: a process on the CPU has grown by far more than its tensors, because of
// caches of oneDNN, Python objects or memory of extensions. Explaining the tensors would miss the
// cause.
#include <algorithm>
#include <cstdint>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Importing modules while recording needs up to about 400 MiB.
constexpr std::uint64_t kLeastOutsideBytes = std::uint64_t{512} << 20;
// Freed tensors may leave as much memory with the C library, which does not return it.
constexpr std::uint64_t kTimesTheTensors = 2;

}  // namespace

void memory_outside_tensors(const Facts& facts, const DeviceFacts& device, Findings& out) {
  // CUDA needs host memory of its own, often more than a GiB.
  const bool has_gpu = std::ranges::any_of(facts.trace.devices, [](const auto& each) {
    return each.device.ordinal >= 0 && each.events.size() > 0;
  });
  const std::uint64_t start = device.report.process_start_bytes.value_or(UINT64_MAX);
  const std::uint64_t end = device.report.process_end_bytes.value_or(0);
  const std::uint64_t tensors = not_negative(device.report.live_totals().peak_bytes);
  const std::uint64_t grown = minus_or_zero(end, start);
  const std::uint64_t outside = minus_or_zero(grown, tensors);
  if (has_gpu || outside < kLeastOutsideBytes || outside / kTimesTheTensors < tensors) return;
  out.push_back(
      {"memory_outside_tensors",
       report::FindingSeverity::kInfo,
       "The process grew by " + bytes_text(grown) + "; its tensors explain at most " +
           bytes_text(tensors) + " of it",
       {"Its resident memory was " + bytes_text(start) + " when the recording began and " +
            bytes_text(end) + " when it ended.",
        "The rest is outside tensors: Python objects, NumPy arrays, imported modules, compiled "
        "code (torch.compile), caches of oneDNN (for each new input shape), or memory of "
        "extensions."},
       {{"Profile native and Python memory with memray or heaptrack."},
        {"If input shapes keep changing, pad them to a few, or set ONEDNN_PRIMITIVE_CACHE_CAPACITY "
         "to a small number."}}});
}

}  // namespace plimsoll::findings
