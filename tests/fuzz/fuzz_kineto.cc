// Feeds bytes to the reader of torch.profiler traces. Allocations and frees of every accepted trace
// must pair without errors.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "read_file.h"
#include "readers/kineto/kineto_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  const auto trace = fuzz::read_file(*readers::kineto::make(), data, size);
  if (!trace) return 0;
  for (const auto& device : trace->devices) {
    PLIMSOLL_CHECK(device.events.size() > 0 && device.allocated_before_bytes.has_value());
  }
  return 0;
}
