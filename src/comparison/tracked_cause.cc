#include "comparison/tracked_cause.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace plimsoll::comparison {
namespace {

// The peak first, then the points that differ most.
std::vector<DiffPoint> points_by_difference(const report::Digest& before,
                                            const report::Digest& after) {
  std::vector<DiffPoint> points = compare(before, after).points;
  std::ranges::stable_sort(points, {}, [](const DiffPoint& point) {
    return std::pair(point.name != "peak", -std::abs(point.difference_bytes));
  });
  return points;
}

bool is_only_in_before(const DiffRow& row) {
  return row.pairing == "unpaired" && row.after_bytes == 0 && row.after_count == 0;
}

}  // namespace

std::optional<TrackedCause> TrackedCause::find(const report::Digest& good,
                                               const report::Digest& bad, const std::string& id) {
  for (DiffPoint& point : points_by_difference(good, bad)) {
    for (std::size_t i = 0; i < point.causes.size(); ++i) {
      const DiffCause& cause = point.causes[i];
      if (cause.difference_bytes == 0 || (!id.empty() && cause.id != id)) continue;
      return TrackedCause(good, bad, std::move(point), i);
    }
  }
  return std::nullopt;
}

TrackedCause::TrackedCause(const report::Digest& good, const report::Digest& bad, DiffPoint point,
                           std::size_t cause)
    : good_(good), bad_(bad), point_(std::move(point)), cause_(point_.causes[cause]) {
  for (const DiffRow& row : point_.rows) {
    if (row.cause != cause) continue;
    (is_only_in_before(row) ? only_in_good_ : in_bad_).insert(name_of(row));
  }
  growth_ = growth_in(bad).value_or(0);
}

TrackedCause::RowName TrackedCause::name_of(const DiffRow& row) {
  return {row.category, row.layer, row.op, row.function, row.place};
}

std::optional<DiffPoint> TrackedCause::point_between(const report::Digest& from,
                                                     const report::Digest& to,
                                                     const DiffPoint& point) {
  for (DiffPoint& each : compare(from, to, {.at = point.name}).points) {
    if (each.device == point.device) return std::move(each);
  }
  return std::nullopt;
}

std::int64_t TrackedCause::sum_of(const DiffPoint& point, const std::set<RowName>& names) {
  std::int64_t sum = 0;
  for (const DiffRow& row : point.rows) {
    if (!is_only_in_before(row) && names.contains(name_of(row))) sum += row.difference_bytes;
  }
  return sum;
}

std::optional<std::int64_t> TrackedCause::growth_in(const report::Digest& version) const {
  const auto to_bad = point_between(version, bad_, point_);
  const auto to_good = point_between(version, good_, point_);
  if (!to_bad || !to_good) return std::nullopt;
  // The peak's move to another phase has no rows.
  if (in_bad_.empty() && only_in_good_.empty()) return -to_good->difference_bytes;
  return sum_of(point_, in_bad_) - sum_of(*to_bad, in_bad_) - sum_of(*to_good, only_in_good_);
}

bool TrackedCause::is_nearer_to_bad(std::int64_t growth) const {
  return std::abs(growth_ - growth) < std::abs(growth);
}

std::vector<std::string> known_cause_ids() {
  return {"kept_each_step", "graph_kept",   "module_added", "module_removed",  "scaled",
          "dtype_changed",  "size_changed", "now_saved",    "no_longer_saved", "longer_lived",
          "shorter_lived",  "more_kept",    "fewer_kept",   "replaced",        "new",
          "removed",        "grew",         "shrank",       "peak_moved"};
}

std::vector<std::string> cause_ids(const report::Digest& before, const report::Digest& after) {
  std::vector<std::string> ids;
  for (const DiffPoint& point : points_by_difference(before, after)) {
    for (const DiffCause& cause : point.causes) {
      if (std::ranges::find(ids, cause.id) == ids.end()) ids.push_back(cause.id);
    }
  }
  return ids;
}

}  // namespace plimsoll::comparison
