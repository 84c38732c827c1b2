// Feeds bytes to the reader of out-of-memory messages. Every accepted text must become a trace with
// one event for each message.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "read_file.h"
#include "readers/oom_message/oom_message_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  const auto trace = fuzz::read_file(*readers::oom_message::make(), data, size);
  if (!trace) return 0;
  PLIMSOLL_CHECK(!trace->oom_messages.empty());
  PLIMSOLL_CHECK(trace->event_count() == trace->oom_messages.size());
  return 0;
}
