// What stands in a recording beside its events becomes part of its trace. An attachment that cannot
// be read leaves the recording as it is, and is a diagnostic.
#pragma once

#include "base/diagnostics.h"
#include "base/progress.h"
#include "engine/load.h"
#include "plimsoll/result.h"
#include "readers/beside.h"

namespace plimsoll::engine {

// `of_events` is what the builder of `loaded.trace` found; it is told where those events stay.
Status join_attachments(const readers::Beside& beside, const base::Diagnostics& of_events,
                        Loaded& loaded, base::Progress& progress);

}  // namespace plimsoll::engine
