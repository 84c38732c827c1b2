// Monitoring options from a YAML file, with the same blocks, names and strictness as in Python
// (docs/monitoring.md). Link plimsoll_config, which needs yaml-cpp.
//
//   plimsoll::Result<plimsoll::MonitorOptions> options = plimsoll::load_monitor_options("c.yaml");
//   if (!options) std::cerr << options.error().message << '\n';  // with file, line and column
//
// A file that does not enable monitoring leaves it off.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/monitor_options.h"
#include "plimsoll/result.h"

namespace plimsoll {

// Reads the options of a file; the environment (PLIMSOLL_MONITOR_*) takes precedence.
Result<MonitorOptions> load_monitor_options(const std::string& path);

// Reads the options from YAML text; `name` is its name in messages.
Result<MonitorOptions> parse_monitor_options(std::string_view yaml, const std::string& name);

}  // namespace plimsoll
