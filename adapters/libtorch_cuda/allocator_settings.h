// The settings of torch's caching allocator, with the names and values that torch's own snapshots
// have under "allocator_settings".
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll::libtorch_cuda {

struct SeenSetting {
  std::string name;  // nested ones are dotted: "roundup_power2_divisions.1"
  std::variant<bool, std::int64_t, double, std::string> value;
};

void report_settings(const plimsoll_recorder_api& api, const std::vector<SeenSetting>& settings);

}  // namespace plimsoll::libtorch_cuda
