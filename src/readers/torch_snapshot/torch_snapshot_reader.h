// Reads the files of torch.cuda.memory._dump_snapshot and similar functions: a pickle of protocol 2
// to 5 from Python's or LibTorch's pickler, bare or inside a trace_plot page, from any PyTorch
// since 2.0. See docs/readers/torch_snapshot.md.
#pragma once

#include <memory>

#include "readers/reader.h"

namespace plimsoll::readers::torch_snapshot {

std::unique_ptr<Reader> make();

}  // namespace plimsoll::readers::torch_snapshot
