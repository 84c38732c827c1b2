// The findings of reports, and the figures that nearly became one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/finding.h"

namespace plimsoll::report {

using plimsoll::Finding;
using plimsoll::FindingHolder;
using plimsoll::FindingSeverity;
using plimsoll::FindingStep;
using plimsoll::step_up_to;

// Every finding id.
inline constexpr auto kFindingIds = std::to_array<std::string_view>({
#define ID(id) id,
#include "report/findings.def"
});

// Whether the steps of the finding lower the peak of live bytes. The steps of the others lower
// reserved bytes, or memory outside the allocator.
constexpr bool lowers_peak(std::string_view id) {
  constexpr auto kOthers = std::to_array<std::string_view>(
      {"out_of_memory", "stranded_memory", "segment_churn", "non_pytorch_memory",
       "memory_outside_tensors", "churn", "ranks_differ"});
  return std::ranges::find(kOthers, id) == kOthers.end();
}

// A figure below the threshold of its rule.
struct NearMiss {
  std::int32_t device = 0;
  std::string id;  // the finding above the threshold
  std::string text;
  double closeness = 0;  // figure / threshold, below 1

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &NearMiss::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"id", &NearMiss::id, "Id of the finding that was not raised."},
        Field{"text", &NearMiss::text, "The figure and the threshold, as text."},
        Field{"closeness", &NearMiss::closeness, "The figure divided by the threshold, below 1."});
  }
};

}  // namespace plimsoll::report
