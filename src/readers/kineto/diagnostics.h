// The diagnostics of torch.profiler traces: possible imperfections, and their effect on the
// numbers.
#pragma once

#include "base/diagnostics.h"

namespace plimsoll::readers::kineto {

inline constexpr base::DiagnosticKind kNoMemoryEvents{
    "no_memory_events", base::Severity::kError,
    "The trace has no memory events, so there is nothing to report. Profile again with "
    "torch.profiler.profile(profile_memory=True, with_stack=True)."};
inline constexpr base::DiagnosticKind kCutOff{
    "cut_off", base::Severity::kDataLoss,
    "The file ends early. What came before is read; the last part of the history is missing.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kDamagedJson{
    "damaged_json", base::Severity::kDataLoss,
    "The JSON is broken at this place. What came before is read, the rest is lost.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kBadMemoryEvent{
    "bad_memory_event", base::Severity::kDataLoss,
    "Memory events without a time, a device or a size are left out. Totals may be off by them.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kBadSpan{
    "bad_span", base::Severity::kInfo,
    "Operators or Python calls whose times cannot be read. Allocations inside them may lack a "
    "line."};
inline constexpr base::DiagnosticKind kZeroBytes{
    "zero_bytes", base::Severity::kInfo,
    "Memory events of zero bytes are left out. They change no total."};
inline constexpr base::DiagnosticKind kBlockSizes{
    "block_sizes", base::Severity::kInfo,
    "torch.profiler records allocated bytes (blocks, after rounding), not requested bytes: the two "
    "are shown as equal, and internal fragmentation as zero. A memory snapshot has both."};
inline constexpr base::DiagnosticKind kSyntheticSegments{
    "synthetic_segments", base::Severity::kInfo,
    "The trace records reserved bytes, but not segments. Each change of the total is shown as one "
    "segment allocated or freed."};
inline constexpr base::DiagnosticKind kNoAddresses{
    "no_addresses", base::Severity::kInfo,
    "This profiler (torch of 2021) wrote no addresses. Each free is assigned to the most recent "
    "live allocation of its size. Sums do not depend on this, lifetimes do."};
inline constexpr base::DiagnosticKind kNoTotals{
    "no_totals", base::Severity::kDataLoss,
    "This profiler (torch of 2021) wrote no totals. Memory that was allocated before the recording "
    "and not freed in it is missing from every sum, and reserved bytes are unknown."};
inline constexpr base::DiagnosticKind kTotalsDisagree{
    "totals_disagree", base::Severity::kDataLoss,
    "The running sum of the events differs from the total that the allocator reported with them: "
    "events are missing, or are not in the order in which they happened.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kDriverFreeUnknown{
    "driver_free_unknown", base::Severity::kDataLoss,
    "torch.profiler does not record the driver's free memory when memory ran out: it is shown as "
    "0. A memory snapshot has it."};
inline constexpr base::DiagnosticKind kSeveralProcesses{
    "several_processes", base::Severity::kDataLoss,
    "Memory events of several processes name the same device, and their totals are mixed. Open "
    "the trace of one rank at a time.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kFunctionLines{
    "function_lines", base::Severity::kInfo,
    "torch.profiler records the line where a Python function begins, not the line that was "
    "running: each allocation is attributed to its function. A memory snapshot has the line."};
inline constexpr base::DiagnosticKind kOpenFunctions{
    "open_functions", base::Severity::kInfo,
    "A Python function that was running when profiling began has no line: for it, torch.profiler "
    "records the line that started the profiler. Its operators are named instead."};
inline constexpr base::DiagnosticKind kChargedToForward{
    "charged_to_forward", base::Severity::kInfo,
    "Allocations of the backward pass have the Python stack and the module of the forward operator "
    "that created their autograd node, found by its sequence number."};
inline constexpr base::DiagnosticKind kPythonOfOtherThread{
    "python_of_other_thread", base::Severity::kInfo,
    "Allocations on threads without Python calls have the stack of the only Python thread at that "
    "time."};

}  // namespace plimsoll::readers::kineto
