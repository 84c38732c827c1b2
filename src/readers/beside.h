// What a file may hold beside its events: another tool's record of the same run, and what the
// program was doing meanwhile. A reader gives it on as it is; who knows all readers makes it part
// of the trace (engine/attachments.h).
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
  std::string format;  // the name of the reader that knows it
  std::vector<std::byte> bytes;
};

// What a thread was in the middle of, from a moment on. Words are of the trace that is read.
struct Doing {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  model::StringId layer;
  model::StringId op;  // the outermost operator; 0: none
  model::Phase phase = model::Phase::kOther;
};

struct Beside {
  std::vector<Attachment> attachments;  // the last whole one of each format
  base::Column<Doing> doings;           // of all threads, in the order of the file
};

}  // namespace plimsoll::readers
