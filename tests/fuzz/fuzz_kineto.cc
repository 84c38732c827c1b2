// Feeds bytes to the reader of torch.profiler traces as a file. The first byte sets the size of the
// pieces. Every trace that is read must pair without errors.
#include <cstddef>
#include <cstdint>
#include <span>

#include "accepted.h"
#include "base/check.h"
#include "readers/kineto/kineto_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::size_t piece = data[0] < 64 ? data[0] + 1u : SIZE_MAX;
  const auto reader = readers::kineto::make();
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
  for (const auto& device : trace->devices) {
    PLIMSOLL_CHECK(device.events.size() > 0 && device.allocated_before_bytes.has_value());
  }
  return 0;
}
