// The memory of the process next to that of its tensors on the CPU.
#pragma once

#include "model/trace.h"
#include "report/device_report.h"

namespace plimsoll::analysis::device {

// `out` is the report of the CPU, with its timeline.
void add_process(const model::Trace& trace, const model::DeviceTrace& cpu,
                 report::DeviceReport& out);
void clear_process(report::DeviceReport& out);

}  // namespace plimsoll::analysis::device
