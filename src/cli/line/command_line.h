// Parses command-line arguments into Arguments, as a Command describes them.
#pragma once

#include <string>
#include <vector>

#include "cli/line/command.h"
#include "plimsoll/result.h"

namespace plimsoll::cli {

// `words`: the arguments after the command's name. Errors are kInvalidArgument, one sentence.
Result<Arguments> parse(const Command& command, const std::vector<std::string>& words);

}  // namespace plimsoll::cli
