// The ranks of a distributed run beside each other: what each held at its peak, which one is unlike
// the others, which one ran out of memory first.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"
#include "report/text_report.h"

namespace plimsoll::report {

struct RankComparison {
  std::vector<Finding> findings;  // most severe first
  std::size_t first_to_read = 0;  // the report (of those that were given) that tells most
  std::string table;              // a row a rank
};

// None unless there are several reports, each of a rank of its own.
std::optional<RankComparison> compare_ranks(const std::vector<Report>& reports,
                                            const TextOptions& options);

}  // namespace plimsoll::report
