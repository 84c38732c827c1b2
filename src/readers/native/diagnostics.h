// The diagnostics of trace files: possible imperfections, and their effect on the numbers.
#pragma once

#include "base/diagnostics.h"

namespace plimsoll::readers::native {

inline constexpr base::DiagnosticKind kNoEvents{"no_events", base::Severity::kError,
                                                "The recording has no memory events: no allocation "
                                                "that Plimsoll can see was made while it ran."};
inline constexpr base::DiagnosticKind kNoEventsWritten{
    "no_events_written", base::Severity::kError,
    "The file has no memory events, because the recording ended before the first one was written.",
    base::Totals::kIncomplete};
// The examples of these diagnostics state the missing amounts.
inline constexpr base::DiagnosticKind kFileCut{
    "file_cut", base::Severity::kDataLoss,
    "The recording has no end: the program was killed, or is still running.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kFileTruncated{
    "file_truncated", base::Severity::kDataLoss,
    "The end of the file is missing, although it was written. Copy the file again.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kSinkFailed{
    "sink_failed", base::Severity::kDataLoss,
    "The recorder could no longer write to the file, and the program went on without it.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kCorruptBlock{
    "corrupt_block", base::Severity::kDataLoss,
    "Parts of the file are damaged and were skipped. Allocations in them are missing, and memory "
    "freed in them may appear live.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kCorruptHead{
    "corrupt_head", base::Severity::kDataLoss,
    "The first bytes of the file are damaged. It is read as if this version had written it.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kLaterVersion{
    "later_version", base::Severity::kInfo,
    "The file has records of a later version of Plimsoll, which are skipped. Update to see them."};
inline constexpr base::DiagnosticKind kDroppedEvents{
    "dropped_events", base::Severity::kDataLoss,
    "Events were lost because they came faster than they could be written. Allocations may be "
    "missing, and memory whose free was lost appears live until its address is used again.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kEvictedEvents{
    "evicted_events", base::Severity::kInfo,
    "The recording was limited by max_events: earlier events were evicted. What was live then is "
    "known; when it was allocated is not.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kLostRecords{
    "lost_records", base::Severity::kDataLoss,
    "The recorder had no memory left for some records. They are missing from every sum.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kUnseenFree{
    "unseen_free", base::Severity::kInfo,
    "Frees of memory whose allocation was not recorded. It is in no sum, before or after."};
inline constexpr base::DiagnosticKind kUndefined{
    "undefined", base::Severity::kDataLoss,
    "Allocations whose place in the program was not written, or is lost in a damaged block. Their "
    "bytes are counted; their layer, operator and line are unknown."};
inline constexpr base::DiagnosticKind kBadDefinition{"bad_definition", base::Severity::kDataLoss,
                                                     "Definitions with invalid ids are skipped."};
inline constexpr base::DiagnosticKind kAllocatedBeforeRecording{
    "allocated_before_recording", base::Severity::kInfo,
    "Memory from before the recording that no module or optimizer owns: its category is unknown. "
    "Start recording before the model is built to see where it was allocated."};
inline constexpr base::DiagnosticKind kAttachmentCut{
    "attachment_cut", base::Severity::kDataLoss,
    "An attachment from another tool is incomplete: the program was killed while it was written, "
    "or the file is damaged. The previous attachment is used, if there is one.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kPythonAdapter{
    "python_adapter", base::Severity::kDataLoss,
    "Recorded without the compiled adapter: memory that operators allocate and free while they run "
    "is missing. Install a C++ compiler to record it."};
inline constexpr base::DiagnosticKind kBlockOutsideSegments{
    "block_outside_segments", base::Severity::kDataLoss,
    "Blocks of a caching allocator that are in none of its segments, or overlap: segments are "
    "missing, and reserved bytes are too low."};
inline constexpr base::DiagnosticKind kSegmentsContradict{
    "segments_contradict", base::Severity::kDataLoss,
    "Segments allocated where one exists, or freed where none exists: events are missing. Reserved "
    "bytes are those of the segments known at each event."};
inline constexpr base::DiagnosticKind kDeviceFreeUnknown{
    "device_free_unknown", base::Severity::kInfo,
    "The recording does not have the device's free memory when memory ran out: it is shown as 0."};

// Reported by the recorder: enum plimsoll_notice.
inline constexpr base::DiagnosticKind kSizesCorrected{
    "sizes_corrected", base::Severity::kInfo,
    "Blocks whose size differs from the allocator's rules. The allocator's statistics gave the "
    "size immediately, so the figures are right."};
inline constexpr base::DiagnosticKind kSumsUnexplained{
    "sums_unexplained", base::Severity::kDataLoss,
    "Differences from the allocator's statistics that no single block explains. The device was "
    "compared with the allocator's own list of blocks soon after; between the two, figures may be "
    "off."};
inline constexpr base::DiagnosticKind kSizesUnverified{
    "sizes_unverified", base::Severity::kInfo,
    "Allocations whose block sizes follow from the allocator's rules alone, without its "
    "statistics: CUDA memory was in use before the recorder was first attached. Start recording "
    "earlier to have them checked."};
inline constexpr base::DiagnosticKind kCudaAdapterUnavailable{
    "cuda_adapter_unavailable", base::Severity::kInfo,
    "The CUDA adapter was unavailable: CUDA memory comes from torch's own allocator history."};
inline constexpr base::DiagnosticKind kDeviceNotRecorded{
    "device_not_recorded", base::Severity::kDataLoss, "CUDA memory was not recorded at all.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kFailuresNotPrinted{
    "failures_not_printed", base::Severity::kInfo,
    "Failed allocations that were recorded, but not printed while the program ran: it ran out of "
    "memory many times."};
inline constexpr base::DiagnosticKind kNamesRefused{
    "names_refused", base::Severity::kDataLoss,
    "Events with more different names, lines or tensors than a process may define (1,048,576 "
    "each). "
    "Their bytes are counted, under the name (beyond the limit of names). Give regions and layers "
    "names that do not contain a number of their own."};
inline constexpr base::DiagnosticKind kDetailsLost{
    "details_lost", base::Severity::kDataLoss,
    "The process had no memory left for some details: allocations may lack their layer, line, "
    "category or name. Their bytes are counted."};
inline constexpr base::DiagnosticKind kReportFailed{
    "report_failed", base::Severity::kInfo,
    "When memory ran out, an error in Plimsoll cut off the report that it prints: please report "
    "it. The recording itself is complete."};
inline constexpr base::DiagnosticKind kChildrenUnrecorded{
    "children_unrecorded", base::Severity::kInfo,
    "Forked child processes that allocated memory, such as DataLoader workers: it is not in this "
    "recording. plimsoll run --in-children, or in_children=True, records each into its own file."};

}  // namespace plimsoll::readers::native
