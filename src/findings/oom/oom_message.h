// The finding about an out-of-memory message that a program printed.
#pragma once

#include <cstdint>
#include <string>

#include "findings/allocator/allocator_conf.h"
#include "model/oom_message.h"
#include "report/finding.h"

namespace plimsoll::findings {

// More of the device outside the allocator than a context and a few libraries need.
inline constexpr double kMuchOfDevice = 0.10;

// `line` requested the memory; empty if the text has no traceback. `count`: messages about the
// device, of which this is the last.
report::Finding explain_message(model::OomMessage message, const std::string& line,
                                std::uint64_t count, const AcceleratorNames& names = {});

}  // namespace plimsoll::findings
