#include "report/timeline.h"

namespace plimsoll::report {

const char* to_string(Series series) {
  switch (series) {
    case Series::kRequestedAllocated:
      return "requested_allocated";
    case Series::kRequestedActive:
      return "requested_active";
    case Series::kAllocatedRounded:
      return "allocated_rounded";
    case Series::kReserved:
      return "reserved";
  }
  return "";
}

const std::vector<TimelineBucket>* Timeline::at_most(std::size_t points) const {
  for (const auto& level : levels) {
    if (level.size() <= points) return &level;
  }
  return levels.empty() ? nullptr : &levels.back();
}

}  // namespace plimsoll::report
