// The diagnostics that a trace in any format may have.
#pragma once

#include "base/diagnostics.h"

namespace plimsoll::model {

inline constexpr base::DiagnosticKind kFreeWithoutAlloc{
    "free_without_alloc", base::Severity::kInfo,
    "Frees of memory allocated before the first event: counted in the baseline."};
inline constexpr base::DiagnosticKind kLiveBeforeRecording{
    "live_before_recording", base::Severity::kInfo,
    "Blocks live from before the first event to the end: counted in the baseline. Start recording "
    "before the model is built to see where they were allocated."};
inline constexpr base::DiagnosticKind kLoneFrees{
    "lone_frees", base::Severity::kInfo,
    "Frees with one of their two events, free_requested and free_completed, because the other kind "
    "was not recorded (skip_actions). Each ends its allocation there; how long a block waited for "
    "a stream is unknown."};
inline constexpr base::DiagnosticKind kAllocOverLive{
    "alloc_over_live", base::Severity::kDataLoss,
    "Allocations at an address that was still in use: the free in between is missing from the "
    "file. The older allocation is assumed to end there.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kFreeSizeDiffers{
    "free_size_differs", base::Severity::kDataLoss,
    "Frees whose size differs from that of their allocation: events are missing or belong to "
    "another recording.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kLiveWithoutBlock{
    "live_without_block", base::Severity::kDataLoss,
    "Allocations that the events leave live but that the final segments do not contain: events and "
    "segments are not of the same time, so the baseline rolled back from the segments is not "
    "reliable.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kBlockSizeDiffers{
    "block_size_differs", base::Severity::kDataLoss,
    "Blocks of the final segments whose requested size differs from that of the allocation at "
    "their address: events and segments are not of the same time.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kBlockWhileFreed{
    "block_while_freed", base::Severity::kDataLoss,
    "Blocks of the final segments that are active although the events freed them: events and "
    "segments are not of the same time.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kHistoryTruncated{
    "history_truncated", base::Severity::kDataLoss,
    "The recorder's ring was full and the earliest events are lost. Totals are exact; what "
    "happened before the first "
    "event is unknown. Record with a larger limit (max_entries of PyTorch, max_events of "
    "Plimsoll), "
    "or for fewer steps.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kImplausibleSize{
    "implausible_size", base::Severity::kDataLoss,
    "Impossible sizes, above 1 PiB (of a failed request, 1 EiB). They are read as 1 PiB (1 EiB), "
    "and totals with them are wrong: the file is damaged.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kImplausibleTime{
    "implausible_time", base::Severity::kDataLoss,
    "Times before 1824 or after 2116. They are read as that year, and times with them are wrong: "
    "the file is damaged."};
inline constexpr base::DiagnosticKind kUnknownAction{
    "unknown_action", base::Severity::kInfo,
    "Events with an action this version does not know. They are kept and change no total."};

}  // namespace plimsoll::model
