// Feeds bytes to the reader of the CSV of `nsys stats`, and summarizes the result.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "accepted.h"
#include "nsys/summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll::nsys;
  const std::string_view csv(reinterpret_cast<const char*>(data), size);
  const NsysSummary summary = read_nsys_stats(csv);
  if (summary.tables > 0) plimsoll::fuzz::accept();
  if (nsys_summary_text(summary, 80, plimsoll::text::Color::kOff).empty()) std::abort();
  return 0;
}
