// Feeds bytes to the reader of nvidia-smi's CSV logs as a file. Every device has a name, none
// appears twice in a round, and rounds are numbered from 0.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "accepted.h"
#include "base/check.h"
#include "logs/lines.h"
#include "logs/nvidia_smi_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  logs::NvidiaSmiLog log;
  logs::LogLines lines([&](std::string_view line) {
    static_cast<void>(logs::NvidiaSmiLog::knows(line));
    log.line(line);
  });
  lines.feed({reinterpret_cast<const char*>(data), size});
  lines.finish();
  std::int64_t round = 0;
  const Status status = log.finish("log", [&](const MemorySample& sample) {
    PLIMSOLL_CHECK(sample.iteration == round++);
    PLIMSOLL_CHECK(!sample.devices.empty());
    for (std::size_t i = 0; i < sample.devices.size(); ++i) {
      PLIMSOLL_CHECK(!sample.devices[i].name.empty());
      for (std::size_t j = 0; j < i; ++j) {
        PLIMSOLL_CHECK(sample.devices[i].name != sample.devices[j].name);
      }
    }
  });
  if (status.ok() && round > 0) fuzz::accept();
  PLIMSOLL_CHECK(status.ok() || !status.error().message.empty());
  return 0;
}
