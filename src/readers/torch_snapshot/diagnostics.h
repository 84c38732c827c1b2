// What can be imperfect about a PyTorch memory snapshot.
#pragma once

#include "base/diagnostics.h"

namespace plimsoll::readers::torch_snapshot {

inline constexpr base::DiagnosticKind kUnknownKey{"unknown_key", base::Severity::kInfo,
                                                  "Keys that this version does not know, probably "
                                                  "of a newer PyTorch. Their values are left out."};
inline constexpr base::DiagnosticKind kMissingKey{
    "missing_key", base::Severity::kDataLoss,
    "Records without a key that every PyTorch writes. What it would have said is taken as zero or "
    "unknown."};
inline constexpr base::DiagnosticKind kBadValue{
    "bad_value", base::Severity::kDataLoss,
    "Values of a type or size that the key cannot have. They are taken as zero or unknown."};
inline constexpr base::DiagnosticKind kForeignItem{
    "foreign_item", base::Severity::kDataLoss,
    "Items of a list that are not what the list should hold. They are left out."};
inline constexpr base::DiagnosticKind kSegmentSizeDiffers{
    "segment_size_differs", base::Severity::kDataLoss,
    "Segments whose blocks do not add up to their size."};
inline constexpr base::DiagnosticKind kMadeUpSegments{
    "made_up_segments", base::Severity::kDataLoss,
    "Segments that torch.profiler made up around its allocations (profile_plot): one a device, the "
    "CPU last. What is "
    "reserved, cached or fragmented means nothing in this file; requested bytes and categories "
    "do."};
inline constexpr base::DiagnosticKind kUnpairedAnnotation{
    "unpaired_annotation", base::Severity::kInfo,
    "Annotations whose START or END is not in the file: they began before the recording or had not "
    "ended."};

}  // namespace plimsoll::readers::torch_snapshot
