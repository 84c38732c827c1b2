// Records a run of a program into a file that another command then reads.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/result.h"
#include "report/digest.h"

namespace plimsoll::cli {

// Runs `plimsoll run -o TRACE` with these arguments in the folder. The program's output goes to
// stderr. Returns its exit status.
Result<int> record_run(const std::vector<std::string>& arguments, const std::string& folder,
                       const std::string& trace);

// Removes the folder, an absolute path, from the places in a digest of what ran in it. Short forms
// of places have the last folders of a path.
void shorten_places(const std::string& folder, report::Digest& digest);

}  // namespace plimsoll::cli
