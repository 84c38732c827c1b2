// Recognizes what DistributedDataParallel and FSDP allocate for their exchanges: gradient buckets,
// gathered parameters, the buffers that gradients are reduced in.
#pragma once

#include "model/trace_builder.h"
#include "readers/native/definitions.h"

namespace plimsoll::readers::native {

// By the code that allocates: the innermost Python frame is in one of their files, or the operator
// or autograd node is theirs.
bool is_communication(const Place& place, model::TraceBuilder& builder);

}  // namespace plimsoll::readers::native
