// Current memory usage, and the peaks within a span of time.
#include <algorithm>
#include <utility>

#include "monitor/watch.h"
#include "plimsoll/monitor.h"
#include "probes/host_memory.h"
#include "sample/live_rows.h"
#include "sample/names.h"

namespace plimsoll {
namespace {

using monitor::LiveMemory;

const DeviceMemory* find(const std::vector<DeviceMemory>& devices, const std::string& name) {
  const auto found = std::ranges::find(devices, name, &DeviceMemory::name);
  return found != devices.end() ? &*found : nullptr;
}

void add(std::optional<std::uint64_t>& sum, std::uint64_t bytes) { sum = sum.value_or(0) + bytes; }

// An allocator has one peak since it started. It belongs to this span only if it has risen within
// it.
void add_reported(TensorUsage& gpu, const DeviceMemory& now, const DeviceMemory* at_begin) {
  if (now.allocated_bytes) add(gpu.allocated_bytes, *now.allocated_bytes);
  if (now.reserved_bytes) add(gpu.reserved_bytes, *now.reserved_bytes);
  if (at_begin == nullptr || !now.peak_bytes || !at_begin->peak_bytes) return;
  if (*now.peak_bytes > *at_begin->peak_bytes) {
    add(gpu.peak_bytes, *now.peak_bytes);
  } else if (*now.peak_bytes == *at_begin->peak_bytes) {
    add(gpu.peak_below_bytes, *now.peak_bytes);
  }  // lower: it was reset, and the peak is unknown
}

MemoryUsage usage_of(const LiveMemory& held, const std::vector<DeviceMemory>& at_begin) {
  MemoryUsage usage;
  usage.rss_bytes = probes::read_host_memory().rss_bytes;
  std::vector<std::string> recorded;
  for (const plimsoll_usage& device : held.recorded) {
    if (device.device_type == PLIMSOLL_DEVICE_PINNED_HOST) continue;
    TensorUsage* tensors = &usage.cpu;
    // The allocator's own figures are exact: the recorder may have lost an event.
    std::optional<std::uint64_t> allocated_bytes;
    std::optional<std::uint64_t> reserved_bytes;
    if (device.device_type != PLIMSOLL_DEVICE_CPU) {
      tensors = usage.gpu ? &*usage.gpu : &usage.gpu.emplace();
      recorded.push_back(sample::device_name(device));
      if (const DeviceMemory* reported = find(held.reported, recorded.back())) {
        allocated_bytes = reported->allocated_bytes;
        reserved_bytes = reported->reserved_bytes;
      }
    }
    if (!reserved_bytes && device.has_segments != 0) reserved_bytes = device.reserved_bytes;
    add(tensors->allocated_bytes, allocated_bytes.value_or(device.live_bytes));
    if (reserved_bytes) add(tensors->reserved_bytes, *reserved_bytes);
    if (!held.has_span) continue;
    add(tensors->peak_bytes, device.peak_bytes);
    if (device.has_segments != 0) add(tensors->peak_reserved_bytes, device.peak_reserved_bytes);
  }
  for (const DeviceMemory& device : held.reported) {
    if (sample::is_cpu(device.name)) continue;
    TensorUsage& gpu = usage.gpu ? *usage.gpu : usage.gpu.emplace();
    if (std::ranges::find(recorded, device.name) == recorded.end()) {
      add_reported(gpu, device, find(at_begin, device.name));
    }
  }
  // The sum of peaks is known only if every device has one.
  if (usage.gpu && usage.gpu->peak_below_bytes && usage.gpu->peak_bytes) {
    add(usage.gpu->peak_below_bytes, *usage.gpu->peak_bytes);
    usage.gpu->peak_bytes.reset();
  }
  return usage;
}

}  // namespace

PeakSpan::PeakSpan() : at_begin_(monitor::ask_device_source()) {
  const monitor::BegunSpan begun = monitor::begin_span();
  watch_ = begun.watch;
  id_ = begun.span;
}
PeakSpan::PeakSpan(PeakSpan&& other) noexcept
    : id_(std::exchange(other.id_, 0)),
      watch_(other.watch_),
      at_begin_(std::move(other.at_begin_)) {}
PeakSpan& PeakSpan::operator=(PeakSpan&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(watch_, other.watch_);
  std::swap(at_begin_, other.at_begin_);
  return *this;
}
PeakSpan::~PeakSpan() { monitor::end_span({watch_, id_}); }

MemoryUsage PeakSpan::usage() const {
  return usage_of(monitor::live_memory(watch_, id_), at_begin_);
}

std::map<std::string, std::uint64_t> PeakSpan::peaks() const {
  const LiveMemory held = monitor::live_memory(watch_, id_);
  std::map<std::string, std::uint64_t> peaks;
  std::vector<std::string> recorded;
  for (const plimsoll_usage& device : held.recorded) {
    if (device.device_type == PLIMSOLL_DEVICE_PINNED_HOST) continue;
    recorded.push_back(sample::device_name(device));
    if (held.has_span) peaks[recorded.back()] = device.peak_bytes;
  }
  for (const DeviceMemory& device : held.reported) {
    if (sample::is_cpu(device.name)) continue;
    if (std::ranges::find(recorded, device.name) != recorded.end()) continue;
    TensorUsage usage;
    add_reported(usage, device, find(at_begin_, device.name));
    if (usage.peak_bytes) peaks[device.name] = *usage.peak_bytes;
  }
  return peaks;
}

MemoryUsage current_usage() { return usage_of(monitor::live_memory(0, 0), {}); }

}  // namespace plimsoll
