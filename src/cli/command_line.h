// From the words a user typed to Arguments. The only file that knows CLI11.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// `words`: what follows the command's name. Errors are kInvalidArgument, one sentence.
Result<Arguments> parse(const Command& command, const std::vector<std::string>& words);

}  // namespace plimsoll::cli
