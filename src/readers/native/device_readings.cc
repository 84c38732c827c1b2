#include "readers/native/device_readings.h"

#include <utility>

#include "plimsoll/recorder_c.h"

namespace plimsoll::readers::native {
namespace {

constexpr std::size_t kMostProcesses = 256;  // in one reading
constexpr std::size_t kLongestName = 64;     // names from the kernel have at most 15 characters

}  // namespace

void DeviceReadings::add(const format::DeviceFigure& figure) {
  std::optional<base::DeviceFigures>& reading = begun_[figure.device];
  if (figure.figure == PLIMSOLL_FIGURE_TOTAL) reading.emplace();
  if (!reading) return;
  const auto add_process = [&](std::optional<std::uint64_t> bytes) {
    if (reading->processes.size() == kMostProcesses) return;
    const model::StringId id = definitions_.name(figure.name);
    std::string name(builder_.strings()[id].substr(0, kLongestName));
    reading->processes.push_back({figure.pid, std::move(name), bytes});
  };
  switch (figure.figure) {
    case PLIMSOLL_FIGURE_TOTAL:
      reading->total_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_DRIVER:
      reading->driver_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_OWN:
      reading->own_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_HIGHEST:
      reading->highest_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_FREE_HEAP:
      reading->free_heap_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_CONTEXT:
      reading->context_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_NCCL:
      reading->has_nccl = true;
      break;
    case PLIMSOLL_FIGURE_PROCESS:
      add_process(figure.value);
      break;
    case PLIMSOLL_FIGURE_PROCESS_UNREPORTED:
      add_process(std::nullopt);
      break;
    case PLIMSOLL_FIGURE_PROCESSES_UNLISTED:
      reading->reports_processes = false;
      break;
    case PLIMSOLL_FIGURE_FREE:
      reading->free_bytes = figure.value;
      builder_.add_reading({.device = definitions_.device(figure.device),
                            .time_ns = figure.time_ns,
                            .figures = *std::exchange(reading, std::nullopt)});
      break;
    default:
      break;
  }
}

}  // namespace plimsoll::readers::native
