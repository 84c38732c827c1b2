// Finds the text logs below a project: output/NAME/profiles/tensor_profile_*.log, and the same in
// rank0/, rank1/, ... of a distributed run.
#pragma once

#include <string>
#include <vector>

#include "logs/file_search.h"
#include "plimsoll/result.h"

namespace plimsoll::logs {

struct LatestRun {
  std::vector<std::string> logs;  // one, or one per rank in rank order
  bool is_complete = true;        // false: a limit ended the search, and a newer log may exist
  std::string skipped;            // the newest log, if it has no complete sample; else empty
};

// The run that wrote the newest text log in or below `folder` that has a complete sample, or the
// newest one if none has. Links to folders are followed, each
// folder once; hidden folders are skipped.
Result<LatestRun> find_latest_run(const std::string& folder, const SearchLimits& limits = {});

}  // namespace plimsoll::logs
