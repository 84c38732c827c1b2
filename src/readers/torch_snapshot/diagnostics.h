// The diagnostics of PyTorch memory snapshots.
#pragma once

#include "base/diagnostics.h"

namespace plimsoll::readers::torch_snapshot {

inline constexpr base::DiagnosticKind kUnknownKey{
    "unknown_key", base::Severity::kInfo,
    "Keys or values unknown to this version, probably from a newer PyTorch or the program itself. "
    "They are left out."};
inline constexpr base::DiagnosticKind kMissingKey{
    "missing_key", base::Severity::kDataLoss,
    "Records without a key that every PyTorch writes. Its value is read as zero or unknown.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kBadValue{
    "bad_value", base::Severity::kDataLoss,
    "Values of a type or size that the key cannot have. They are read as zero or unknown.",
    base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kForeignItem{
    "foreign_item", base::Severity::kDataLoss,
    "Items of a list that have the wrong type. They are left out.", base::Totals::kIncomplete};
inline constexpr base::DiagnosticKind kSegmentSizeDiffers{
    "segment_size_differs", base::Severity::kDataLoss,
    "Segments whose blocks do not add up to their size."};
inline constexpr base::DiagnosticKind kMadeUpSegments{
    "made_up_segments", base::Severity::kDataLoss,
    "Segments that torch.profiler invented around its allocations (profile_plot): one per device, "
    "the CPU last. Reserved and cached bytes and fragmentation are meaningless in this file; "
    "requested bytes and categories are valid."};
inline constexpr base::DiagnosticKind kUnpairedAnnotation{
    "unpaired_annotation", base::Severity::kInfo,
    "Annotations whose START or END is not in the file: they began before the recording or had not "
    "ended."};
inline constexpr base::DiagnosticKind kUnplacedEvents{
    "unplaced_events", base::Severity::kDataLoss,
    "Events outside the list of any device. They are left out.", base::Totals::kIncomplete};

}  // namespace plimsoll::readers::torch_snapshot
