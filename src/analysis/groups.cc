#include "analysis/groups.h"

#include <algorithm>

namespace plimsoll::analysis {
namespace {

using Group = Groups::Group;

struct Candidate {
  Group group;
  report::GroupRow row;
};

report::GroupRow row_of(const Group& group, const report::MomentRow& moment) {
  report::GroupRow row;
  row.device = moment.device;
  row.bytes = group.bytes;
  row.count = group.count;
  row.largest_bytes = group.largest_bytes;
  if (moment.live_bytes > 0) {
    row.share = static_cast<double>(group.bytes) / static_cast<double>(moment.live_bytes);
  }
  return row;
}

void merge_into(Group& rest, const Group& group) {
  rest.bytes += group.bytes;
  rest.count += group.count;
  rest.largest_bytes = std::max(rest.largest_bytes, group.largest_bytes);
}

}  // namespace

void append_rows(std::vector<Group> groups, std::size_t top, const report::MomentRow& moment,
                 const Describe& describe, std::vector<report::GroupRow>& out) {
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.id < b.id;
  });
  // Groups as large as the last one kept compete with it by key, so they need their keys too.
  const std::size_t kept = std::min(top, groups.size());
  std::size_t named = kept;
  while (kept > 0 && named < groups.size() && groups[named].bytes == groups[kept - 1].bytes) {
    ++named;
  }
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < named; ++i) {
    candidates.push_back(Candidate{groups[i], row_of(groups[i], moment)});
    describe(groups[i].id, candidates.back().row);
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.row.bytes != b.row.bytes ? a.row.bytes > b.row.bytes : a.row.key < b.row.key;
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
  report::GroupRow row = row_of(rest, moment);
  row.key = "[other: " + std::to_string(left) + (left == 1 ? " group]" : " groups]");
  out.push_back(std::move(row));
}

}  // namespace plimsoll::analysis
