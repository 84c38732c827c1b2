// Follows one cause of a difference through the versions of a program: a version that lies between
// a good and a bad one is nearer to one of them in the memory that the cause explains, whatever
// else changed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comparison/diff.h"
#include "report/digest.h"

namespace plimsoll::comparison {

// Keeps references to both digests.
class TrackedCause {
 public:
  // The largest cause at the peak, or else at the point that differs most; with an id, the largest
  // one of this kind. nullopt: there is none.
  static std::optional<TrackedCause> find(const report::Digest& good, const report::Digest& bad,
                                          const std::string& id);

  const DiffPoint& point() const { return point_; }
  const DiffCause& cause() const { return cause_; }

  // How many bytes more the cause explains in this version than in the good one. nullopt: the
  // version does not have the point.
  std::optional<std::int64_t> growth_in(const report::Digest& version) const;
  std::int64_t growth_in_bad() const { return growth_; }
  bool is_nearer_to_bad(std::int64_t growth) const;

 private:
  // What a row of a difference is about.
  using RowName = std::tuple<std::string, std::string, std::string, std::string, std::string>;

  TrackedCause(const report::Digest& good, const report::Digest& bad, DiffPoint point,
               std::size_t cause);
  static RowName name_of(const DiffRow& row);
  // The point in the difference from the version to a digest.
  static std::optional<DiffPoint> point_between(const report::Digest& from,
                                                const report::Digest& to, const DiffPoint& point);
  static std::int64_t sum_of(const DiffPoint& point, const std::set<RowName>& names);

  const report::Digest& good_;
  const report::Digest& bad_;
  DiffPoint point_;
  DiffCause cause_;
  std::set<RowName> in_bad_;        // its rows, as the bad digest names them
  std::set<RowName> only_in_good_;  // its rows that only the good digest has
  std::int64_t growth_ = 0;
};

// All ids that a cause may have.
std::vector<std::string> known_cause_ids();

// The ids of the causes between two digests, without repetitions.
std::vector<std::string> cause_ids(const report::Digest& before, const report::Digest& after);

}  // namespace plimsoll::comparison
