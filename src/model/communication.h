// Recognizes the communication buffers of DistributedDataParallel and FSDP, which are gradient
// buckets, gathered parameters and reduction buffers, by the code that allocates them.
#pragma once

#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

// Whether the operator or autograd node is theirs.
bool is_communication_op(std::string_view op);

// Whether the innermost Python frame is in one of their files.
bool is_communication_stack(StackId stack, const StackTable& stacks, const StringTable& strings);

}  // namespace plimsoll::model
