// Feeds bytes to the reader of configurations as a file. set() accepts every option that is found;
// any error is one sentence that begins with the file's name.
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
