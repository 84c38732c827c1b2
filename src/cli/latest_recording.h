// The word "latest" in the place of a recording's path.
#pragma once

#include "cli/command.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// Replaces it by the newest *.plim in or below the current folder and names that on stderr, for
// the positionals that take recordings.
Status name_latest(const Command& command, Arguments& arguments);

}  // namespace plimsoll::cli
