// Monitoring options from a YAML file, with the same blocks, names and strictness as in Python
// (docs/monitoring.md). Link plimsoll_config, which needs yaml-cpp.
//
//   plimsoll::Result<plimsoll::MonitorOptions> options = plimsoll::load_monitor_options("c.yaml");
//   if (!options) std::cerr << options.error().message << '\n';  // with file, line and column
//
// If the file does not enable monitoring, it stays off.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/monitor_options.h"
#include "plimsoll/result.h"

namespace plimsoll {

// Reads the options of a file; the environment (PLIMSOLL_MONITOR_*) takes precedence. Errors name
// the file, line and column.
Result<MonitorOptions> load_monitor_options(const std::string& path);

// Reads the options from YAML text; error messages call it `name`.
Result<MonitorOptions> parse_monitor_options(std::string_view yaml, const std::string& name);

}  // namespace plimsoll
