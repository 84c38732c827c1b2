// Diagnostics for recordings that did not end properly: what the file lacks, in numbers.
#pragma once

#include "base/diagnostics.h"
#include "format/block_stream.h"
#include "readers/native/recording.h"

namespace plimsoll::readers::native {

// `last_event_ns`: time of the last event in the file.
void report_end(const Recording& recording, std::int64_t last_event_ns,
                const format::Damage& damage, base::Diagnostics& diagnostics);

}  // namespace plimsoll::readers::native
