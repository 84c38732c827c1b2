// Finds the text logs below a project: output/NAME/profiles/tensor_profile_*.log, and the same in
// rank0/, rank1/, ... of a distributed run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll::monitor {

// Where a search ends, whatever the folder holds.
struct SearchLimits {
  int depth = 6;                             // folders below the first
  std::size_t entries_of_a_folder = 50'000;  // a data set of images is not a run
  std::int64_t time_ns = std::int64_t{5'000'000'000};
};

struct LatestRun {
  std::vector<std::string> logs;  // one, or one of each rank in the order of the ranks
  bool is_complete = true;        // false: a limit ended the search, and a newer log may exist
};

// The run that wrote the newest text log in or below `folder`. Links to folders are followed, each
// folder once; hidden folders are skipped.
Result<LatestRun> find_latest_run(const std::string& folder, const SearchLimits& limits = {});

}  // namespace plimsoll::monitor
