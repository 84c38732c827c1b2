// Reads what torch.cuda.memory._dump_snapshot and its relatives write: a pickle of protocol 2 to 5
// from Python's or from LibTorch's pickler, bare or inside a trace_plot page, of any PyTorch
// since 2.0. docs/readers/torch_snapshot.md.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::torch_snapshot {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::torch_snapshot
