// Merges the attachments of a recording into its trace. An attachment that cannot be read leaves
// the recording unchanged and is a diagnostic.
#pragma once

#include "base/diagnostics.h"
#include "base/progress.h"
#include "engine/load.h"
#include "plimsoll/result.h"
#include "readers/side_data.h"

namespace plimsoll::engine {

// `of_events` are the diagnostics of the builder of `loaded.trace`. They are reported if the
// recording's own events are kept.
Status join_attachments(const readers::SideData& side_data, const base::Diagnostics& of_events,
                        Loaded& loaded, base::Progress& progress);

}  // namespace plimsoll::engine
