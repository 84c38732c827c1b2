// Recognizes the communication buffers of DistributedDataParallel and FSDP by the code that
// allocates them: gradient buckets, gathered parameters and reduction buffers.
#pragma once

#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

// Whether this operator or autograd node belongs to DDP or FSDP.
bool is_communication_op(std::string_view op);

// Whether the innermost Python frame, apart from torch's operator dispatch, is in a file of DDP or
// FSDP.
bool is_communication_stack(StackId stack, const StackTable& stacks, const StringTable& strings);

}  // namespace plimsoll::model
