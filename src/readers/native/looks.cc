#include "readers/native/looks.h"

#include <utility>

#include "plimsoll/recorder_c.h"

namespace plimsoll::readers::native {
namespace {

constexpr std::size_t kMostProcesses = 256;  // of one look
constexpr std::size_t kLongestName = 64;     // the kernel's own have 15 letters

}  // namespace

void Looks::add(const format::DeviceFigure& figure) {
  std::optional<base::DeviceFigures>& look = begun_[figure.device];
  if (figure.figure == PLIMSOLL_FIGURE_TOTAL) look.emplace();
  if (!look) return;
  const auto add_process = [&](std::optional<std::uint64_t> bytes) {
    if (look->processes.size() == kMostProcesses) return;
    const model::StringId id = definitions_.name(figure.name);
    std::string name(builder_.strings()[id].substr(0, kLongestName));
    look->processes.push_back({figure.pid, std::move(name), bytes});
  };
  switch (figure.figure) {
    case PLIMSOLL_FIGURE_TOTAL:
      look->total_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_DRIVER:
      look->driver_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_OWN:
      look->own_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_CONTEXT:
      look->context_bytes = figure.value;
      break;
    case PLIMSOLL_FIGURE_NCCL:
      look->has_nccl = true;
      break;
    case PLIMSOLL_FIGURE_PROCESS:
      add_process(figure.value);
      break;
    case PLIMSOLL_FIGURE_PROCESS_UNTOLD:
      add_process(std::nullopt);
      break;
    case PLIMSOLL_FIGURE_PROCESSES_UNTOLD:
      look->tells_processes = false;
      break;
    case PLIMSOLL_FIGURE_FREE:
      look->free_bytes = figure.value;
      builder_.add_look({.device = definitions_.device(figure.device),
                         .time_ns = figure.time_ns,
                         .figures = *std::exchange(look, std::nullopt)});
      break;
    default:
      break;
  }
}

}  // namespace plimsoll::readers::native
