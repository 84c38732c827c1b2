// Data that a file carries in addition to events: another tool's record of the same run, and the
// threads' activity over time. A reader passes it on unchanged; engine/attachments.h, which has
// access to all readers, merges it into the trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/column.h"
#include "model/events.h"
#include "model/ids.h"

namespace plimsoll::readers {

struct Attachment {
  std::string format;  // name of the reader for it
  std::vector<std::byte> bytes;
};

// The activity of a thread, starting at a point in time. Ids are strings of the trace being read.
struct ThreadActivity {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  model::StringId layer;
  model::StringId op;  // the outermost operator; 0: none
  model::Phase phase = model::Phase::kOther;
};

struct SideData {
  std::vector<Attachment> attachments;      // the last complete one of each format
  base::Column<ThreadActivity> activities;  // of all threads, in the order of the file
};

}  // namespace plimsoll::readers
