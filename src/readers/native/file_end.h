// What a trace file lacks at its end, in numbers: diagnostics for recordings that were not ended.
#pragma once

#include "base/diagnostics.h"
#include "format/block_stream.h"
#include "readers/native/recording.h"

namespace plimsoll::readers::native {

// `last_event_ns`: of the events in the file.
void tell_end(const Recording& recording, std::int64_t last_event_ns, const format::Damage& damage,
              base::Diagnostics& diagnostics);

}  // namespace plimsoll::readers::native
