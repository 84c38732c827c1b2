// Feeds bytes to the reader of other processes' live status files. Every accepted sample can be
// written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "accepted.h"
#include "live/live_status_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll::live;
  const auto sample = decode_sample(std::as_bytes(std::span(data, size)));
  if (!sample) return 0;
  if (!sample->devices.empty()) plimsoll::fuzz::accept();
  const auto again = encode_sample(*sample);
  if (again.size() > kMostSampleBytes || !decode_sample(again)) std::abort();
  return 0;
}
