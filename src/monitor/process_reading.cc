#include "monitor/process_reading.h"

#include <cstdint>

#include "plimsoll/recorder_c.h"
#include "probes/host_memory.h"

namespace plimsoll::monitor {

void record_process_memory() {
  const plimsoll_recorder_api& api = *plimsoll_recorder();
  if (api.is_recording() == 0) return;
  const HostMemory host = probes::read_host_memory();
  if (!host.rss_bytes || !host.used_bytes || !host.total_bytes) return;
  if (*host.used_bytes > *host.total_bytes) return;
  plimsoll_context* const context = api.context();
  const std::uint8_t device = api.device(PLIMSOLL_DEVICE_CPU, 0);
  const auto emit = [&](std::uint8_t figure, std::uint64_t bytes) {
    api.device_figure(context, device, figure, bytes, 0, 0);
  };
  emit(PLIMSOLL_FIGURE_TOTAL, *host.total_bytes);
  emit(PLIMSOLL_FIGURE_OWN, *host.rss_bytes);
  emit(PLIMSOLL_FIGURE_PROCESSES_UNLISTED, 0);
  emit(PLIMSOLL_FIGURE_FREE, *host.total_bytes - *host.used_bytes);
}

}  // namespace plimsoll::monitor
