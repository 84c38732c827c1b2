// Recognizes the communication buffers of DistributedDataParallel and FSDP: gradient buckets,
// gathered parameters, reduction buffers.
#pragma once

#include "model/trace_builder.h"
#include "readers/native/definitions.h"

namespace plimsoll::readers::native {

// Decides by the allocating code: the innermost Python frame is in one of their files, or the
// operator or autograd node is theirs.
bool is_communication(const Place& place, model::TraceBuilder& builder);

}  // namespace plimsoll::readers::native
