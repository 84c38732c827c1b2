// What happened while each layer ran: how often and how long it was called, allocations and frees,
// the most that was reserved, and the mean fragmentation. Each figure includes the layers inside.
#pragma once

#include <vector>

#include "model/layers.h"
#include "model/trace.h"
#include "report/attribution.h"

namespace plimsoll::analysis::layers {

// By layer; `of_lifetime` names the layer of each row of device.lifetimes. Adds to `layers` those
// that were called and own nothing.
std::vector<report::LayerCalls> count_calls(const model::Trace& trace,
                                            const model::DeviceTrace& device,
                                            const std::vector<model::LayerId>& of_lifetime,
                                            model::Layers& layers);

}  // namespace plimsoll::analysis::layers
