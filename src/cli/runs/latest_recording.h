// Accepts the name "latest" in place of a recording's path.
#pragma once

#include "cli/line/command.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// Replaces "latest" in positionals that take recordings by the newest *.plim in or below the
// current folder, and prints its name to stderr.
Status name_latest(const Command& command, Arguments& arguments);

}  // namespace plimsoll::cli
