// Determines the type of the devices in a snapshot. PyTorch writes the same layout for each
// accelerator and does not store its type, so it is inferred from names that only one type has.
#pragma once

#include <optional>
#include <string_view>

#include "model/stacks.h"
#include "model/strings.h"
#include "model/trace.h"

namespace plimsoll::readers::torch_snapshot {

// Infers the type from the modules and libraries in stacks; CUDA if they name none.
model::DeviceType accelerator_of_stacks(const model::StringTable& strings,
                                        const model::StackTable& stacks);

// Infers the type from the name of an allocator setting, such as PYTORCH_HIP_ALLOC_CONF; nullopt if
// every accelerator may have that setting.
std::optional<model::DeviceType> accelerator_of_setting(std::string_view name);

}  // namespace plimsoll::readers::torch_snapshot
