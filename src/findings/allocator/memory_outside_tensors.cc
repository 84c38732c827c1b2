// memory_outside_tensors: a process on the CPU has grown by far more than its tensors, because of
// caches of oneDNN, Python objects or memory of extensions. Explaining the tensors would miss the
// cause.
#include <algorithm>
#include <cstdint>
#include <string>

#include "findings/rules.h"
#include "findings/text.h"
#include "report/devices.h"

namespace plimsoll::findings {
namespace {

// From the start of the recording: importing modules and first uses of libraries need up to about
// 400 MiB.
constexpr std::uint64_t kLeastOutsideBytes = std::uint64_t{512} << 20;
// Freed tensors may leave as much memory with the C library, which does not return it.
constexpr std::uint64_t kTimesTheTensors = 2;

// A growth of the process. `figures`: its parts, which sum to it; the last one is named here.
report::Finding finding_of(const std::string& title, const std::string& figures,
                           std::uint64_t outside) {
  return {
      "memory_outside_tensors",
      report::FindingSeverity::kInfo,
      title,
      {figures, "The other " + bytes_text(outside) +
                    " are outside tensors: Python objects, NumPy arrays, imported modules, "
                    "compiled code (torch.compile), caches of oneDNN (for each new input shape), "
                    "or memory of extensions."},
      {{"Profile native and Python memory with memray or heaptrack."},
       {"If input shapes keep changing, pad them to a few, or set ONEDNN_PRIMITIVE_CACHE_CAPACITY "
        "to a small number."}}};
}

// Whether the adapter records the tensors that Python knows, and not all.
bool misses_tensors(const Facts& facts) {
  return std::ranges::any_of(facts.report.source.diagnostics,
                             [](const auto& each) { return each.name == "python_adapter"; });
}

}  // namespace

void memory_outside_tensors(const Facts& facts, const DeviceFacts& device, Findings& out) {
  // CUDA needs host memory of its own, often more than a GiB.
  const bool has_gpu = std::ranges::any_of(facts.trace.devices, [](const auto& each) {
    return each.device.ordinal >= 0 && each.events.size() > 0;
  });
  if (has_gpu || misses_tensors(facts)) return;
  const report::DeviceReport& process = device.report;
  const std::uint64_t tensors = not_negative(process.live_totals().peak_bytes);
  const std::uint64_t steady = report::growth_outside_tensors(process);
  if (steady > 0 && process.is_process_growing) {
    const std::uint64_t warm = *process.process_warm_bytes;
    const std::uint64_t highest = *process.process_highest_bytes;
    out.push_back(finding_of(
        "The process grew by " + bytes_text(steady) + " outside its tensors after step 3",
        "The most that it has had resident was " + bytes_text(warm) +
            " when step 3 had ended and " + bytes_text(highest) +
            " at the end, and it went on growing. Of these " +
            bytes_text(minus_or_zero(highest, warm)) + ", " +
            bytes_text(minus_or_zero(highest, warm + steady)) +
            " are of tensors, or were freed and the C library keeps them. Tensors have " +
            bytes_text(tensors) + " at their peak.",
        steady));
    out.back().severity = report::FindingSeverity::kWarning;
    return;
  }
  const std::uint64_t start = process.process_start_bytes.value_or(UINT64_MAX);
  const std::uint64_t end = process.process_end_bytes.value_or(0);
  const std::uint64_t grown = minus_or_zero(end, start);
  const std::uint64_t outside = minus_or_zero(grown, tensors);
  if (outside < kLeastOutsideBytes || outside / kTimesTheTensors < tensors) return;
  const std::uint64_t free_heap = std::min(process.process_free_heap_bytes.value_or(0), outside);
  std::string figures = "Its resident memory was " + bytes_text(start) +
                        " when the recording began and " + bytes_text(end) +
                        " when it ended. Of these " + bytes_text(grown) + ", tensors are at most " +
                        bytes_text(tensors);
  if (free_heap > 0) {
    figures +=
        ", and the C library has not returned " + bytes_text(free_heap) + " of what was freed";
  }
  out.push_back(finding_of("The process grew by " + bytes_text(grown) +
                               "; its tensors explain at most " + bytes_text(tensors) + " of it",
                           figures + ".", outside - free_heap));
  if (free_heap < outside / 2) return;
  out.back().steps.push_back(
      {"Set MALLOC_MMAP_THRESHOLD_=65536 in the environment: the C library then returns large "
       "blocks when they are freed."});
}

}  // namespace plimsoll::findings
