#include "model/trace.h"

#include <algorithm>

namespace plimsoll::model {

const char* to_string(History history) {
  switch (history) {
    case History::kNoEvents:
      return "none";
    case History::kComplete:
      return "complete";
    case History::kTruncated:
      return "truncated";
  }
  return "none";
}

const Setting* Trace::setting(std::string_view name) const {
  auto found = std::ranges::find_if(settings, [&](const Setting& s) { return s.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<const OomMessage*> Trace::messages_about(Device device) const {
  std::vector<const OomMessage*> found;
  for (const OomMessage& message : oom_messages) {
    if (message.device == device) found.push_back(&message);
  }
  return found;
}

std::size_t Trace::attributed_event(const DeviceTrace& device, std::size_t lifetime) const {
  const Lifetimes& rows = device.lifetimes;
  std::uint32_t event = rows.alloc[lifetime];
  if (event == kNone) event = rows.free_requested[lifetime];
  if (event == kNone || event == kBeforeRecording) event = rows.free_completed[lifetime];
  return event;
}

std::uint64_t Trace::size_bytes(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = attributed_event(device, lifetime);
  if (event != kNone) return device.events.size_bytes[event];
  return blocks[device.lifetimes.block[lifetime]].requested_size;
}

std::uint64_t Trace::block_bytes(const DeviceTrace& device, std::size_t lifetime) const {
  const std::uint32_t block = device.lifetimes.block[lifetime];
  if (block != kNone) return blocks[block].size;
  const std::size_t event = attributed_event(device, lifetime);
  return event != kNone ? device.events.size_bytes[event] + device.events.padding_bytes[event] : 0;
}

std::uint64_t Trace::address(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = attributed_event(device, lifetime);
  if (event != kNone) return device.events.address[event];
  return blocks[device.lifetimes.block[lifetime]].address;
}

StackId Trace::stack(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = attributed_event(device, lifetime);
  if (event != kNone) return site(device, event).stack;
  return blocks[device.lifetimes.block[lifetime]].stack;
}

StreamId Trace::stream(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = attributed_event(device, lifetime);
  if (event != kNone) return site(device, event).stream;
  const std::uint32_t block = device.lifetimes.block[lifetime];
  // The block's segment is the last one of the device that starts at or before it.
  const Segment* const first = segments.begin() + device.first_segment;
  const Segment* const last = first + device.segment_count;
  const Segment* holder = std::upper_bound(
      first, last, block, [](std::uint32_t b, const Segment& s) { return b < s.first_block; });
  return holder == first ? StreamId{} : (holder - 1)->stream;
}

Event Trace::event_of(const Events& events, std::size_t row) const {
  Event event;
  static_cast<Site&>(event) = sites[events.site[row]];
  event.action = events.action[row];
  event.address = events.address[row];
  event.size_bytes = events.size_bytes[row];
  event.time_ns = events.time_ns[row];
  event.user_metadata = events.user_metadata[row];
  event.padding_bytes = events.padding_bytes[row];
  event.shortage = events.shortage[row];
  return event;
}

std::uint64_t Trace::event_count() const {
  std::uint64_t count = 0;
  for (const DeviceTrace& device : devices) count += device.events.size();
  return count;
}

bool Trace::has_categories() const {
  return has_attribution || sites.states(&Site::category) ||
         std::ranges::any_of(devices, [](const DeviceTrace& device) {
           return device.lifetimes.category.present();
         });
}

bool Trace::has_tensors() const {
  return std::ranges::any_of(
      devices, [](const DeviceTrace& device) { return device.lifetimes.tensor.present(); });
}

std::size_t Lifetimes::born_at(std::uint32_t event) const {
  const auto* const first = alloc.begin() + baseline_count;
  return static_cast<std::size_t>(std::lower_bound(first, alloc.end(), event) - alloc.begin());
}

}  // namespace plimsoll::model
