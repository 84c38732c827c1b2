// Feeds bytes to the reader of out-of-memory messages as a file. The first byte sets the size of
// the pieces. Every text that is read must become a trace with one event for each message.
#include <cstddef>
#include <cstdint>
#include <span>

#include "accepted.h"
#include "base/check.h"
#include "readers/oom_message/oom_message_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::size_t piece = data[0] < 64 ? data[0] + 1u : SIZE_MAX;
  const auto reader = readers::oom_message::make();
  static_cast<void>(reader->sniff(bytes.first(bytes.size() < 4096 ? bytes.size() : 4096)));
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{.memory_bytes = 64 << 20}};
  const auto source = readers::view_memory(bytes, piece);
  const Status status = reader->read(*source, context);
  if (!status.ok()) return 0;
  fuzz::accept();
  const auto trace = builder.finish(reader->name(), progress);
  PLIMSOLL_CHECK(trace.ok());
  PLIMSOLL_CHECK(!trace->oom_messages.empty());
  PLIMSOLL_CHECK(trace->event_count() == trace->oom_messages.size());
  return 0;
}
