// Totals while each layer ran: number and duration of its calls, allocations and frees, peak of
// reserved bytes, and mean fragmentation. Each figure includes the layers inside it.
#pragma once

#include <vector>

#include "model/layers.h"
#include "model/trace.h"
#include "report/attribution.h"

namespace plimsoll::analysis::layers {

// Indexed by layer; `of_lifetime` has the layer of each row of device.lifetimes. Adds layers that
// were called but own nothing to `layers`.
std::vector<report::LayerCalls> count_calls(const model::Trace& trace,
                                            const model::DeviceTrace& device,
                                            const std::vector<model::LayerId>& of_lifetime,
                                            model::Layers& layers);

}  // namespace plimsoll::analysis::layers
