#include "record/process_reading.h"

#include <algorithm>

#include "probes/host_memory.h"
#include "probes/system_files.h"

namespace plimsoll::record {

void read_process(const std::function<void(plimsoll_figure, std::uint64_t bytes)>& emit) noexcept
    try {
  const HostMemory host = probes::HostProbe().read();
  if (!host.rss_bytes || !host.used_bytes || !host.total_bytes) return;
  if (*host.used_bytes > *host.total_bytes) return;
  const auto status = probes::read_system_file("/proc/self/status");
  const auto highest = probes::bytes_after(status.value_or(""), "VmHWM:");
  emit(PLIMSOLL_FIGURE_TOTAL, *host.total_bytes);
  emit(PLIMSOLL_FIGURE_OWN, *host.rss_bytes);
  if (highest) emit(PLIMSOLL_FIGURE_HIGHEST, std::max(*highest, *host.rss_bytes));
  if (const auto free_heap = probes::read_free_heap()) emit(PLIMSOLL_FIGURE_FREE_HEAP, *free_heap);
  emit(PLIMSOLL_FIGURE_PROCESSES_UNLISTED, 0);
  emit(PLIMSOLL_FIGURE_FREE, *host.total_bytes - *host.used_bytes);
} catch (...) {
  return;  // no memory for the text of a file
}

}  // namespace plimsoll::record
