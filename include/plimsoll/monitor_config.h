// The options of monitoring from a YAML file, as training projects have one: the same blocks, names
// and strictness as in Python (docs/monitoring.md). Link plimsoll_config, which needs yaml-cpp.
//
//   plimsoll::Result<plimsoll::MonitorOptions> options = plimsoll::load_monitor_options("c.yaml");
//   if (!options) std::cerr << options.error().message << '\n';  // with file, line and column
//
// A file in which nothing switches monitoring on leaves it off.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/monitor_options.h"
#include "plimsoll/result.h"

namespace plimsoll {

// What the file says, and before it the environment (PLIMSOLL_MONITOR_*).
Result<MonitorOptions> load_monitor_options(const std::string& path);

// What a text says; `name` stands for it in messages.
Result<MonitorOptions> parse_monitor_options(std::string_view yaml, const std::string& name);

}  // namespace plimsoll
