// The names that a dump and docs/format.md use for the numbers in plimsoll/recorder_c.h.
#pragma once

#include <array>
#include <string_view>

#include "base/recorder_names.h"

namespace plimsoll::format {

inline constexpr std::array<std::string_view, 4> kSettingTypeNames = {"boolean", "integer",
                                                                      "number", "text"};

inline constexpr std::array<std::string_view, 4> kSegmentActionNames = {"alloc", "free", "map",
                                                                        "unmap"};

inline constexpr std::array<std::string_view, 16> kMarkNames = {
    "step",          "region_begin", "region_end",       "backward_begin", "backward_end",
    "out_of_memory", "layer",        "operator",         "phase",          "layer_begin",
    "layer_end",     "own_steps",    "collection_begin", "collection_end", "uses",
    "fork"};

inline constexpr std::array<std::string_view, 11> kFigureNames = {"total",
                                                                  "free",
                                                                  "driver",
                                                                  "own",
                                                                  "context",
                                                                  "nccl",
                                                                  "process",
                                                                  "process_unreported",
                                                                  "processes_unreported",
                                                                  "highest",
                                                                  "free_heap"};

inline constexpr std::array<std::string_view, 11> kNoticeNames = {"none",
                                                                  "sizes_corrected",
                                                                  "sums_unexplained",
                                                                  "sizes_unverified",
                                                                  "cuda_adapter_unavailable",
                                                                  "device_not_recorded",
                                                                  "failures_not_printed",
                                                                  "names_refused",
                                                                  "details_lost",
                                                                  "report_failed",
                                                                  "children_unrecorded"};

inline constexpr std::array<std::string_view, 5> kWalkEndNames = {"complete", "objects", "nodes",
                                                                  "memory", "time"};

inline constexpr std::array<std::string_view, 18> kLinkKindNames = {
    "module", "frame", "exception", "native",  "cycle",     "attribute",
    "item",   "local", "closure",   "default", "grad_fn",   "node",
    "saved",  "hook",  "gradient",  "base",    "traceback", "other"};

// Indexed by RecordingState.
inline constexpr std::array<std::string_view, 4> kRecordingStateNames = {"none", "running", "ended",
                                                                         "failed"};

}  // namespace plimsoll::format
