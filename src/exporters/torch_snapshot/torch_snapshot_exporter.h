// A PyTorch memory snapshot (pickle protocol 4), as torch.cuda.memory._dump_snapshot writes it: the
// model's segments, traces, allocator settings and annotations, under PyTorch's own keys. Plimsoll
// reads the file back into an equal model.
//
//   - A device's index in device_traces is its ordinal; devices that have none (the CPU), or share
//     one, come after the last. Pinned host memory has host_segments and host_traces.
//   - Keys are omitted if the model has no value: time_us, frames (no stack was recorded),
//     compile_context, user_metadata, category, pool_id.
//   - Equal stacks are one list object, equal frames one dict: files are smaller than PyTorch's.
//   - Operators and layers have no key in this format; they are not written.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::torch_snapshot {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::torch_snapshot
