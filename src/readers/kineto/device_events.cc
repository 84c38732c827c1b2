#include "readers/kineto/device_events.h"

#include <algorithm>
#include <limits>

#include "plimsoll/caching_allocator.h"
#include "readers/kineto/diagnostics.h"

namespace plimsoll::readers::kineto {
namespace {

using model::Action;
using model::Event;

std::uint64_t magnitude(std::int64_t bytes) {
  return static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes);
}

// A sum that stays in bounds even for hostile files.
struct Bytes {
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;

  void add(std::int64_t bytes) {
    if (__builtin_add_overflow(value, bytes, &value)) value = bytes < 0 ? -kMost : kMost;
    value = std::max(value, -kMost);
  }
};

}  // namespace

void DeviceEvents::emit(model::Device device, std::vector<std::uint32_t> rows) {
  const auto& events = recording_.events;
  std::ranges::stable_sort(rows, {}, [&](std::uint32_t row) { return events[row].time_ns; });
  device_ = device;
  builder_.name_device(device);
  set_before(device, rows);
  for (const std::uint32_t row : rows) {
    const MemoryEvent& event = events[row];
    if (event.bytes > 0) {
      add_segment_change(event);
      if (event.is_out_of_memory) {
        add_out_of_memory(event, places_[row]);
      } else {
        add_alloc(event, places_[row]);
      }
    } else {
      add_free(event);
      add_segment_change(event);
    }
    check_total(device, event);
  }
}

// Sets the memory live before the first event: the allocator's first total, but at least what the
// trace itself shows (traces from 2021 have no totals; damaged ones may have any).
void DeviceEvents::set_before(model::Device device, const std::vector<std::uint32_t>& rows) {
  const MemoryEvent& first = recording_.events[rows.front()];
  std::int64_t reported = 0;
  if (first.total_allocated != MemoryEvent::kNotReported) {
    if (__builtin_sub_overflow(first.total_allocated, first.change(), &reported) || reported < 0)
      reported = 0;
    allocated_ = reported;
  } else {
    diagnostics_.add(kNoTotals, 1, to_string(device));
  }
  reserved_ = first.total_reserved;
  builder_.set_before(device, std::max(static_cast<std::uint64_t>(reported), least_before(rows)),
                      static_cast<std::uint64_t>(std::max<std::int64_t>(reserved_, 0)));
}

// The bytes freed without an allocation, and at least enough to keep the running sum from falling
// below zero (a free may have more bytes than its allocation).
std::uint64_t DeviceEvents::least_before(const std::vector<std::uint32_t>& rows) const {
  tsl::robin_map<std::uint64_t, std::uint64_t, Hash> live;  // by address, or by size if there is
                                                            // none
  Bytes unmatched, sum, lowest;
  for (const std::uint32_t row : rows) {
    const MemoryEvent& event = recording_.events[row];
    if (event.is_out_of_memory) continue;
    const std::uint64_t key = event.has_address ? event.address : magnitude(event.bytes);
    if (event.bytes > 0) {
      ++live[key];
    } else if (auto found = live.find(key); found != live.end()) {
      if (event.has_address || --found.value() == 0) live.erase(found);
    } else {
      unmatched.add(-event.bytes);
    }
    sum.add(event.bytes);
    lowest.value = std::min(lowest.value, sum.value);
  }
  return static_cast<std::uint64_t>(std::max(unmatched.value, -lowest.value));
}

void DeviceEvents::add_alloc(const MemoryEvent& event, const Place& place) {
  Event row;
  row.action = Action::kAlloc;
  row.address = address_of_alloc(event);
  row.size_bytes = magnitude(event.bytes);
  row.time_ns = event.time_ns;
  row.stack = place.stack;
  row.op = place.op;
  row.layer = place.layer;
  builder_.add_event(device_, row);
}

void DeviceEvents::add_free(const MemoryEvent& event) {
  Event row;
  row.action = Action::kFreeRequested;
  row.size_bytes = magnitude(event.bytes);
  row.address = address_of_free(event, row.size_bytes);
  row.time_ns = event.time_ns;
  builder_.add_event(device_, row);
  row.action = Action::kFreeCompleted;
  builder_.add_event(device_, row);
}

// The event lacks the driver's free bytes, which the model stores in place of the address.
void DeviceEvents::add_out_of_memory(const MemoryEvent& event, const Place& place) {
  Event row;
  row.action = Action::kOom;
  row.size_bytes = magnitude(event.bytes);
  row.time_ns = event.time_ns;
  row.stack = place.stack;
  row.op = place.op;
  row.layer = place.layer;
  builder_.add_event(device_, row);
  diagnostics_.add(kDriverFreeUnknown);
}

void DeviceEvents::add_segment_change(const MemoryEvent& event) {
  if (event.total_reserved == MemoryEvent::kNotReported) return;
  if (reserved_ == MemoryEvent::kNotReported) reserved_ = event.total_reserved;
  const std::int64_t change = event.total_reserved - reserved_;
  if (change == 0) return;
  reserved_ = event.total_reserved;
  Event row;
  row.action = change > 0 ? Action::kSegmentAlloc : Action::kSegmentFree;
  row.size_bytes = magnitude(change);
  row.address = new_address(row.size_bytes);
  row.time_ns = event.time_ns;
  builder_.add_event(device_, row);
  diagnostics_.add(kSyntheticSegments);
}

// After a disagreement, the running sum continues from the allocator's own total, so that a lost
// event is counted only once.
void DeviceEvents::check_total(model::Device device, const MemoryEvent& event) {
  if (event.total_allocated == MemoryEvent::kNotReported) return;
  std::int64_t expected = event.total_allocated;
  const bool is_known = allocated_ != MemoryEvent::kNotReported &&
                        !__builtin_add_overflow(allocated_, event.change(), &expected);
  if (is_known && expected != event.total_allocated) {
    diagnostics_.add(kTotalsDisagree, 1,
                     to_string(device) + " at " + std::to_string(event.time_ns) +
                         " ns: " + std::to_string(expected) + " bytes by the events, " +
                         std::to_string(event.total_allocated) + " reported");
  }
  allocated_ = event.total_allocated;
}

std::uint64_t DeviceEvents::new_address(std::uint64_t size_bytes) {
  const std::uint64_t address = next_address_;
  next_address_ += caching_allocator::block_bytes(size_bytes);
  return address;
}

std::uint64_t DeviceEvents::address_of_alloc(const MemoryEvent& event) {
  if (event.has_address) return event.address;
  const std::uint64_t address = new_address(magnitude(event.bytes));
  live_by_size_[magnitude(event.bytes)].push_back(address);
  return address;
}

std::uint64_t DeviceEvents::address_of_free(const MemoryEvent& event, std::uint64_t size_bytes) {
  if (event.has_address) return event.address;
  diagnostics_.add(kNoAddresses);
  auto& live = live_by_size_[size_bytes];
  if (live.empty()) return new_address(size_bytes);
  const std::uint64_t address = live.back();
  live.pop_back();
  return address;
}

}  // namespace plimsoll::readers::kineto
