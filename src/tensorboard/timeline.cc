#include "tensorboard/timeline.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "sample/names.h"

namespace plimsoll::tensorboard {
namespace {

std::size_t category_index(std::string_view name) {
  const auto found = std::ranges::find(base::kCategoryNames, name);
  return found == base::kCategoryNames.end()
             ? static_cast<std::size_t>(base::Category::kOther)
             : static_cast<std::size_t>(found - base::kCategoryNames.begin());
}

void add_device(const DeviceMemory& device, TimelineColumn& column) {
  if (device.categories.empty()) {  // nothing is recorded; the allocator's figure may be known
    const std::uint64_t bytes = device.allocated_bytes.value_or(0);
    column.live_bytes += bytes;
    column.category_bytes[static_cast<std::size_t>(base::Category::kUnknown)] += bytes;
  }
  for (const MemoryShare& share : device.categories) {
    column.live_bytes += share.size_bytes;
    column.category_bytes[category_index(share.name)] += share.size_bytes;
  }
  column.reserved_bytes += device.reserved_bytes.value_or(0);
}

// The later column becomes part of the earlier one.
void merge(const TimelineColumn& later, TimelineColumn& column) {
  if (later.live_bytes > column.live_bytes) {
    column.live_bytes = later.live_bytes;
    column.category_bytes = later.category_bytes;
  }
  column.reserved_bytes = std::max(column.reserved_bytes, later.reserved_bytes);
  if (later.peak_bytes > column.peak_bytes) {
    column.peak_bytes = later.peak_bytes;
    column.peak_iteration = later.peak_iteration;
  }
}

}  // namespace

void Timeline::add(const MemorySample& sample) {
  std::vector<const DeviceMemory*> devices;
  for (const DeviceMemory& device : sample.devices) {
    if (!sample::is_cpu(device.name)) devices.push_back(&device);
  }
  const bool has_accelerators = !devices.empty();
  if (has_accelerators && !has_accelerators_) columns_.clear();
  if (!has_accelerators && has_accelerators_) return;  // all devices are gone for this sample
  has_accelerators_ = has_accelerators;
  if (!has_accelerators) {
    for (const DeviceMemory& device : sample.devices) devices.push_back(&device);
  }
  if (devices.empty()) return;

  TimelineColumn column;
  for (const DeviceMemory* device : devices) add_device(*device, column);
  // The peaks of several devices are at different times, so they have no sum.
  if (devices.size() == 1) column.peak_bytes = devices.front()->peak_bytes.value_or(0);
  devices_ = devices.size() == 1 ? sample::one_line(devices.front()->name)
                                 : std::to_string(devices.size()) + " devices";
  // A loop that starts again from 0 continues at the end.
  const bool is_later = columns_.empty() || sample.iteration > last_iteration_;
  const bool is_last = last_iteration_ == std::numeric_limits<std::int64_t>::max();
  last_iteration_ = is_later ? sample.iteration : last_iteration_ + (is_last ? 0 : 1);
  column.iteration = column.peak_iteration = last_iteration_;

  if (!columns_.empty() && samples_in_last_ < samples_per_column_) {
    merge(column, columns_.back());
    ++samples_in_last_;
    return;
  }
  if (columns_.size() == kMostColumns) {
    for (std::size_t pair = 0; pair < kMostColumns / 2; ++pair) {
      columns_[pair] = columns_[2 * pair];
      merge(columns_[2 * pair + 1], columns_[pair]);
    }
    columns_.resize(kMostColumns / 2);
    samples_per_column_ *= 2;
  }
  columns_.push_back(column);
  samples_in_last_ = 1;
}

}  // namespace plimsoll::tensorboard
