#include "monitor/device_watch.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/process_singleton.h"
#include "monitor/watch.h"
#include "plimsoll/monitor.h"
#include "probes/cuda_devices.h"
#include "probes/process_memory.h"

namespace plimsoll {
namespace monitor {
namespace {

constexpr int kTries = 3;

std::int64_t unix_time_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

const plimsoll_usage* usage_of(const std::vector<plimsoll_usage>& usage, std::int32_t ordinal) {
  const auto found = std::ranges::find_if(usage, [&](const plimsoll_usage& device) {
    return device.device_type == PLIMSOLL_DEVICE_CUDA && device.ordinal == ordinal;
  });
  return found != usage.end() && found->has_segments != 0 ? &*found : nullptr;
}

bool is_in_use(const plimsoll_usage& device) {
  return device.device_type == PLIMSOLL_DEVICE_CUDA && device.reserved_bytes > 0;
}

std::vector<std::uint64_t> reserved_of(const std::vector<plimsoll_usage>& usage) {
  std::vector<std::uint64_t> bytes;
  bytes.reserve(usage.size());
  for (const plimsoll_usage& device : usage) bytes.push_back(device.reserved_bytes);
  return bytes;
}

}  // namespace

std::vector<probes::GpuDevice> DeviceReader::read(probes::Nvml& nvml,
                                                  std::vector<DeviceReading>& readings) {
  if (uuids_.empty()) uuids_ = probes::cuda_device_uuids(sources_.cuda);
  std::vector<plimsoll_usage> usage = sources_.usage();
  std::vector<probes::GpuDevice> devices;
  for (int tries = 0; tries < kTries; ++tries) {
    const auto before = reserved_of(usage);
    devices = nvml.read();
    usage = sources_.usage();
    if (reserved_of(usage) == before) break;
  }
  readings.clear();
  for (const plimsoll_usage& ours : usage) {
    if (is_in_use(ours)) seen_.insert(ours.ordinal);
  }
  has_nccl_ = has_nccl_ || probes::has_nccl(sources_.root);
  for (std::size_t ordinal = 0; ordinal < uuids_.size(); ++ordinal) {
    const probes::GpuDevice* const device = probes::find_gpu(devices, uuids_[ordinal]);
    if (device == nullptr) continue;
    readings.push_back(read_device(static_cast<std::int32_t>(ordinal), *device, usage));
    readings.back().figures.has_nccl = has_nccl_;
  }
  if (uuids_.empty()) {
    // CUDA is not initialized here, so none of their memory is ours.
    for (const probes::GpuDevice& device : devices) without_us_.insert(device.uuid);
  }
  return devices;
}

bool DeviceReader::is_urgent() const {
  return std::ranges::any_of(sources_.usage(), [&](const plimsoll_usage& device) {
    return is_in_use(device) && !seen_.contains(device.ordinal);
  });
}

DeviceReading DeviceReader::read_device(std::int32_t ordinal, const probes::GpuDevice& device,
                                        const std::vector<plimsoll_usage>& usage) {
  DeviceReading reading{.ordinal = ordinal, .uuid = device.uuid, .time_ns = unix_time_ns()};
  base::DeviceFigures& figures = reading.figures;
  figures.total_bytes = device.total_bytes;
  figures.free_bytes = device.free_bytes;
  figures.driver_bytes = device.reserved_bytes;
  if (const plimsoll_usage* ours = usage_of(usage, ordinal)) {
    figures.allocated_bytes = ours->live_bytes;
    figures.reserved_bytes = ours->reserved_bytes;
  }
  report_processes(device, figures);
  measure_context(device.uuid, figures);
  return reading;
}

// Finds this process in the list. In a container, the driver reports the host's pids; this process
// is then recognized only if it is the sole entry.
void DeviceReader::report_processes(const probes::GpuDevice& device,
                                    base::DeviceFigures& figures) const {
  figures.reports_processes = device.reports_processes;
  if (!device.reports_processes) return;
  const auto& all = device.processes;
  const std::uint64_t reserved = figures.reserved_bytes.value_or(0);
  auto ours = std::ranges::find(all, static_cast<int>(::getpid()), &probes::GpuProcess::pid);
  if (!sources_.are_pids_ours || ours == all.end()) {
    const bool may_be = all.size() == 1 && all[0].used_bytes && *all[0].used_bytes >= reserved;
    ours = reserved > 0 && may_be ? all.begin() : all.end();
    // One entry may be this process, but it is unknown which.
    if (ours == all.end() && !all.empty() && (reserved > 0 || !sources_.are_pids_ours)) return;
  }
  if (ours == all.end()) {
    if (reserved == 0) figures.own_bytes = 0;
  } else {
    figures.own_bytes = ours->used_bytes;
  }
  for (auto each = all.begin(); each != all.end(); ++each) {
    if (each == ours) continue;
    std::string name;
    if (sources_.are_pids_ours) {
      const auto reported =
          probes::read_process_memory(each->pid, probes::Depth::kQuick, sources_.root);
      if (reported) name = reported->name;
    }
    figures.processes.push_back({each->pid, std::move(name), each->used_bytes});
  }
}

// When this process first appears on a device, its memory there minus its allocator's memory is the
// context: what CUDA itself takes when it starts.
void DeviceReader::measure_context(const std::string& uuid, base::DeviceFigures& figures) {
  if (figures.own_bytes == 0U) without_us_.insert(uuid);
  if (figures.own_bytes.value_or(0) == 0) return;
  const std::uint64_t reserved = figures.reserved_bytes.value_or(0);
  if (without_us_.erase(uuid) > 0 && figures.reserved_bytes && *figures.own_bytes > reserved) {
    contexts_[uuid] = *figures.own_bytes - reserved;
  }
  const auto known = contexts_.find(uuid);
  if (known != contexts_.end()) figures.context_bytes = known->second;
}

// ---- reports to the recordings ----------------------------------------------------------------

namespace {

std::uint32_t name_of(const plimsoll_recorder_api& api, const std::string& text) {
  return text.empty() ? 0 : api.name(text.data(), text.size());
}

void report_recordings(const DeviceReading& reading) {
  const plimsoll_recorder_api& api = *plimsoll_recorder();
  const base::DeviceFigures& figures = reading.figures;
  const bool is_used = figures.reserved_bytes.has_value() || figures.own_bytes.value_or(0) > 0;
  if (api.is_recording() == 0 || !is_used) return;
  if (!figures.total_bytes || !figures.free_bytes) return;
  plimsoll_context* const context = api.context();
  const std::uint8_t device = api.device(PLIMSOLL_DEVICE_CUDA, reading.ordinal);
  const auto emit = [&](std::uint8_t figure, const std::optional<std::uint64_t>& value) {
    if (value) api.device_figure(context, device, figure, *value, 0, 0);
  };
  emit(PLIMSOLL_FIGURE_TOTAL, figures.total_bytes);
  emit(PLIMSOLL_FIGURE_DRIVER, figures.driver_bytes);
  emit(PLIMSOLL_FIGURE_OWN, figures.own_bytes);
  emit(PLIMSOLL_FIGURE_CONTEXT, figures.context_bytes);
  if (figures.has_nccl) emit(PLIMSOLL_FIGURE_NCCL, 0);
  if (!figures.reports_processes) emit(PLIMSOLL_FIGURE_PROCESSES_UNLISTED, 0);
  constexpr std::size_t kMostReported = 64;
  for (std::size_t i = 0; i < std::min(figures.processes.size(), kMostReported); ++i) {
    const base::DeviceProcess& process = figures.processes[i];
    const auto pid = static_cast<std::uint32_t>(process.pid);
    const std::uint8_t figure =
        process.used_bytes ? PLIMSOLL_FIGURE_PROCESS : PLIMSOLL_FIGURE_PROCESS_UNREPORTED;
    api.device_figure(context, device, figure, process.used_bytes.value_or(0), pid,
                      name_of(api, process.name));
  }
  emit(PLIMSOLL_FIGURE_FREE, figures.free_bytes);
}

// ---- the watch of the process -----------------------------------------------------------------

// Called at the end of the process, before the driver's library is unloaded.
void end_device_watch();

// Shared with the thread, which may outlive the watch.
struct Readings {
  DeviceReader reader{{.usage = recorded_usage, .are_pids_ours = probes::are_driver_pids_ours()}};
  std::mutex mutex;
  std::vector<DeviceReading> newest;

  std::vector<probes::GpuDevice> read(probes::Nvml& nvml) {
    static const int kRegistered = std::atexit(end_device_watch);
    static_cast<void>(kRegistered);
    std::vector<DeviceReading> readings;
    auto devices = reader.read(nvml, readings);
    for (const DeviceReading& each : readings) report_recordings(each);
    const std::lock_guard lock(mutex);
    newest = std::move(readings);
    return devices;
  }
};

struct DeviceWatch {
  std::mutex mutex;
  int users = 0;
  std::shared_ptr<Readings> readings;
  std::shared_ptr<probes::NvmlWatcher> watcher;
};

DeviceWatch& device_watch() { return base::process_singleton<DeviceWatch>(); }

// Call this with the lock held, but release the result without it: that briefly waits for the
// thread.
std::shared_ptr<probes::NvmlWatcher> ended(DeviceWatch& watch) {
  watch.users = 0;
  watch.readings.reset();
  return std::move(watch.watcher);
}

void end_device_watch() {
  DeviceWatch& watch = device_watch();
  std::unique_lock lock(watch.mutex);
  const std::shared_ptr<probes::NvmlWatcher> watcher = ended(watch);
  lock.unlock();
}

}  // namespace

std::vector<DeviceReading> device_readings(std::int64_t wait_ns) {
  std::shared_ptr<Readings> readings;
  std::shared_ptr<probes::NvmlWatcher> watcher;
  {
    DeviceWatch& watch = device_watch();
    const std::lock_guard lock(watch.mutex);
    readings = watch.readings;
    watcher = watch.watcher;
  }
  if (readings == nullptr) return {};
  if (wait_ns > 0) watcher->read_now(wait_ns);
  const std::lock_guard lock(readings->mutex);
  return readings->newest;
}

}  // namespace monitor

void start_device_watch() {
  monitor::DeviceWatch& watch = monitor::device_watch();
  const std::lock_guard lock(watch.mutex);
  if (watch.users++ > 0) return;
  watch.readings = std::make_shared<monitor::Readings>();
  probes::NvmlWatcherOptions options;
  options.times_the_cost = 100;
  options.read = [readings = watch.readings](probes::Nvml& nvml) { return readings->read(nvml); };
  options.is_urgent = [readings = watch.readings] { return readings->reader.is_urgent(); };
  watch.watcher = std::make_shared<probes::NvmlWatcher>(std::move(options));
}

void stop_device_watch() {
  monitor::DeviceWatch& watch = monitor::device_watch();
  std::unique_lock lock(watch.mutex);
  if (watch.users == 0) return;
  if (--watch.users > 0) return;
  const std::shared_ptr<probes::NvmlWatcher> watcher = monitor::ended(watch);
  lock.unlock();
}

std::string device_bar_text(const DeviceBar& bar) { return base::parts_text(bar); }

std::optional<DeviceBar> current_device_bar(std::int32_t ordinal, std::int64_t wait_ns) {
  for (const monitor::DeviceReading& reading : monitor::device_readings(wait_ns)) {
    if (reading.ordinal != ordinal) continue;
    auto bar = base::device_bar(reading.figures);
    if (bar) bar->time_ns = reading.time_ns;
    return bar;
  }
  return std::nullopt;
}

}  // namespace plimsoll
