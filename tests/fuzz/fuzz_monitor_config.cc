// Feeds bytes to the reader of configurations as if they were a file. Whatever options it finds,
// they are ones that set() would have taken; else there is one sentence with the name in front.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "accepted.h"
#include "base/check.h"
#include "plimsoll/monitor_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto options = plimsoll::parse_monitor_options(bytes, "config");
  if (options.ok()) {
    plimsoll::fuzz::accept();
    PLIMSOLL_CHECK(options->check().ok());
  } else {
    PLIMSOLL_CHECK(options.error().message.starts_with("config"));
  }
  return 0;
}
