// Finding: verdict, evidence, next step, with the bytes. The same text in terminal, log, JSON and
// Python.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"

namespace plimsoll::report {

enum class FindingSeverity : std::uint8_t { kInfo, kWarning, kCritical };
inline const char* to_string(FindingSeverity severity) {
  switch (severity) {
    case FindingSeverity::kInfo:
      return "info";
    case FindingSeverity::kWarning:
      return "warning";
    case FindingSeverity::kCritical:
      return "critical";
  }
  return "info";
}

// Every id that a finding may have, for --fail-on and its like. Ids are never renamed.
inline constexpr std::array<std::string_view, 25> kFindingIds = {
    "out_of_memory",
    "stranded_memory",
    "memory_growth",
    "recording_incomplete",
    "recording_was_empty",
    "no_memory_events",
    "history_truncated",
    "allocator_settings_conflict",
    "segment_churn",
    "repeated_large_allocation",
    "churn",
    "activations_dominate",
    "optimizer_state_dominates",
    "gradients_kept",
    "graph_without_backward",
    "one_layer_dominates",
    "one_line_dominates",
    "one_tensor_dominates",
    "model_copies",
    "batches_kept",
    "optimizer_scratch",
    "peak_outside_training",
    "one_device_dominates",
    "unknown_memory",
    "ranks_differ",
};

struct Finding {
  std::string id;  // snake_case, stable: "out_of_memory", "stranded_memory", ...
  FindingSeverity severity = FindingSeverity::kInfo;
  std::string title;                  // the verdict, one sentence with the bytes
  std::vector<std::string> evidence;  // each one sentence with numbers
  std::string next_step;              // what to change
  std::uint64_t saving_bytes =
      0;  // what that would save; 0 when it saves nothing or cannot be known

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{Field{"id", &Finding::id, "Stable name of the finding."},
                      Field{"severity", &Finding::severity, "info, warning or critical."},
                      Field{"title", &Finding::title, "The verdict."},
                      Field{"evidence", &Finding::evidence, "Why we say so."},
                      Field{"next_step", &Finding::next_step, "What to do."},
                      Field{"saving_bytes", &Finding::saving_bytes,
                            "What that would save; 0 when nothing or not known."}};
  }
};

// A figure that a rule judged, below the threshold of the rule.
struct NearMiss {
  std::int32_t device = 0;
  std::string id;  // of the finding that it would be
  std::string text;
  double closeness = 0;  // figure / threshold, below 1

  static constexpr auto fields() {
    using base::Field;
    return std::tuple{
        Field{"device", &NearMiss::device, "Ordinal; -1 for the CPU, -2 for pinned host memory."},
        Field{"id", &NearMiss::id, "The finding that it would be."},
        Field{"text", &NearMiss::text, "The figure and the threshold."},
        Field{"closeness", &NearMiss::closeness, "The figure divided by the threshold, below 1."}};
  }
};

}  // namespace plimsoll::report
