// The allocator's settings as nested dicts: "roundup_power2_divisions.1" becomes the key "1" of the
// dict "roundup_power2_divisions".
#pragma once

#include <vector>

#include "exporters/torch_snapshot/pickle_writer.h"
#include "model/trace.h"

namespace plimsoll::exporters::torch_snapshot {

void write_settings(PickleWriter& pickle, const std::vector<model::Setting>& settings);

}  // namespace plimsoll::exporters::torch_snapshot
