#include "model/trace.h"

#include <algorithm>

namespace plimsoll::model {

const char* to_string(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return "cuda";
    case DeviceType::kHip:
      return "hip";
    case DeviceType::kXpu:
      return "xpu";
    case DeviceType::kOther:
      return "other";
    case DeviceType::kPinnedHost:
      return "pinned_host";
  }
  return "other";
}

std::string to_string(Device device) {
  if (device.type == DeviceType::kCpu || device.type == DeviceType::kPinnedHost) {
    return to_string(device.type);
  }
  return std::string(to_string(device.type)) + ":" + std::to_string(device.ordinal);
}

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

std::size_t Trace::telling_event(const DeviceTrace& device, std::size_t lifetime) const {
  const Lifetimes& rows = device.lifetimes;
  std::uint32_t event = rows.alloc[lifetime];
  if (event == kNone) event = rows.free_requested[lifetime];
  if (event == kNone || event == kBeforeRecording) event = rows.free_completed[lifetime];
  return event == kNone ? kNone : device.first_event + event;
}

std::uint64_t Trace::size_bytes(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = telling_event(device, lifetime);
  if (event != kNone) return events.size_bytes[event];
  return blocks[device.lifetimes.block[lifetime]].requested_size;
}

std::uint64_t Trace::block_bytes(const DeviceTrace& device, std::size_t lifetime) const {
  const std::uint32_t block = device.lifetimes.block[lifetime];
  if (block != kNone) return blocks[block].size;
  const std::size_t event = telling_event(device, lifetime);
  return event != kNone ? events.size_bytes[event] + events.slack_bytes[event] : 0;
}

std::uint64_t Trace::address(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = telling_event(device, lifetime);
  if (event != kNone) return events.address[event];
  return blocks[device.lifetimes.block[lifetime]].address;
}

StackId Trace::stack(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = telling_event(device, lifetime);
  if (event != kNone) return events.stack[event];
  return blocks[device.lifetimes.block[lifetime]].stack;
}

StreamId Trace::stream(const DeviceTrace& device, std::size_t lifetime) const {
  const std::size_t event = telling_event(device, lifetime);
  if (event != kNone) return events.stream[event];
  const std::uint32_t block = device.lifetimes.block[lifetime];
  // The segment that holds the block: the last one of the device that starts at or before it.
  const Segment* const first = segments.begin() + device.first_segment;
  const Segment* const last = first + device.segment_count;
  const Segment* holder = std::upper_bound(
      first, last, block, [](std::uint32_t b, const Segment& s) { return b < s.first_block; });
  return holder == first ? StreamId{} : (holder - 1)->stream;
}

}  // namespace plimsoll::model
