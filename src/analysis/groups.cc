#include "analysis/groups.h"

#include <algorithm>

#include "base/natural_order.h"
#include "report/rest_row.h"

namespace plimsoll::analysis {
namespace {

using Group = Groups::Group;

struct Candidate {
  Group group;
  report::GroupRow row;
};

report::GroupRow row_of(const Group& group, const report::PointInTime& point) {
  report::GroupRow row;
  row.device = point.device;
  row.bytes = group.bytes;
  row.count = group.count;
  row.largest_bytes = group.largest_bytes;
  if (point.live_bytes > 0) {
    row.share = static_cast<double>(group.bytes) / static_cast<double>(point.live_bytes);
  }
  return row;
}

void merge_into(Group& rest, const Group& group) {
  rest.bytes += group.bytes;
  rest.count += group.count;
  rest.largest_bytes = std::max(rest.largest_bytes, group.largest_bytes);
}

}  // namespace

void append_rows(std::vector<Group> groups, std::size_t top, const report::PointInTime& point,
                 const Describe& describe, std::vector<report::GroupRow>& out) {
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.id < b.id;
  });
  // Groups of the same size as the last one kept are ordered by key, so they need their keys too.
  // If only one group is left over, it is kept too: a row for the rest would be no shorter.
  const std::size_t kept = groups.size() - top == 1 ? groups.size() : std::min(top, groups.size());
  std::size_t named = kept;
  while (kept > 0 && named < groups.size() && groups[named].bytes == groups[kept - 1].bytes) {
    ++named;
  }
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < named; ++i) {
    candidates.push_back(Candidate{groups[i], row_of(groups[i], point)});
    describe(groups[i].id, candidates.back().row);
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.row.bytes != b.row.bytes ? a.row.bytes > b.row.bytes
                                      : base::natural_less(a.row.key, b.row.key);
  });
  Group rest;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i < kept) {
      out.push_back(std::move(candidates[i].row));
    } else {
      merge_into(rest, candidates[i].group);
    }
  }
  for (std::size_t i = named; i < groups.size(); ++i) merge_into(rest, groups[i]);
  const std::size_t left = groups.size() - kept;
  if (left == 0) return;
  report::GroupRow row = row_of(rest, point);
  row.key = report::rest_key(left);
  out.push_back(std::move(row));
}

}  // namespace plimsoll::analysis
