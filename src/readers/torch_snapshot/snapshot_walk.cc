#include "readers/torch_snapshot/snapshot_walk.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "readers/torch_snapshot/accelerator.h"
#include "readers/torch_snapshot/diagnostics.h"

namespace plimsoll::readers::torch_snapshot {
namespace {

// PyTorch has about thirty settings. A dict may be referenced many times without being large in the
// file, so the walk needs a separate limit.
constexpr std::size_t kMostSettings = 1000;

using model::Annotation;
using model::Device;
using model::DeviceType;

constexpr std::int32_t kMostDevices = 4096;
constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 31;
constexpr std::int32_t kPinnedHostOrdinal = -2;  // neither a device nor the CPU
constexpr std::int32_t kCpuOrdinal = -1;

// "cpu", "cuda:1": what model::to_string() writes.
std::optional<Device> device_named(std::string_view name) {
  for (const auto type : {DeviceType::kCpu, DeviceType::kPinnedHost}) {
    if (name != name_of(type)) continue;
    return Device{type, type == DeviceType::kCpu ? kCpuOrdinal : kPinnedHostOrdinal};
  }
  const std::size_t colon = std::min(name.find(':'), name.size());
  for (const auto type : model::kAccelerators) {
    if (name.substr(0, colon) != name_of(type)) continue;
    Device device{type, 0};
    const std::string_view number = name.substr(std::min(colon + 1, name.size()));
    const char* const begin = number.data();
    const char* const end = begin + number.size();
    const auto parsed = std::from_chars(begin, end, device.ordinal);
    if (parsed.ec == std::errc{} && parsed.ptr == end && device.ordinal >= 0) return device;
  }
  return std::nullopt;
}

}  // namespace

Status SnapshotWalk::walk(const Value& root) {
  accelerator_ = accelerator_of_stacks(builder_.strings(), builder_.stacks());
  // Old dumps consist only of the list of segments.
  if (root.tag == Tag::kList || root.tag == Tag::kEmptyList) {
    const bool is_segments =
        root.tag == Tag::kEmptyList ||
        std::ranges::any_of(arena_.lists[root.bits], [&](const Value& item) {
          return item.tag == Tag::kDict &&
                 Fields(records_.keys(), arena_.dicts[item.bits]).has(Key::kTotalSize);
        });
    if (!is_segments) {
      return make_error(ErrorCode::kUnsupported,
                        "this pickle is a list, but not of a memory snapshot's segments");
    }
    builder_.final_state_known();
    walk_segments(root, accelerator_);
    place_events();
    return {};
  }
  if (root.tag != Tag::kDict) {
    return make_error(ErrorCode::kUnsupported,
                      "this pickle has no memory snapshot: its top level is neither a dict nor a "
                      "list of segments");
  }
  const Entries& entries = arena_.dicts[root.bits];
  const Fields fields(records_.keys(), entries);
  const Value* segments = fields.find(Key::kSegments);
  const Value* traces = fields.find(Key::kDeviceTraces);
  if (segments == nullptr && traces == nullptr) {
    return make_error(
        ErrorCode::kUnsupported,
        "this pickle has no memory snapshot: it has neither 'segments' nor 'device_traces'");
  }
  if (const Value* names = fields.find(Key::kPlimsollDevices)) walk_devices(*names);
  if (const Value* names = fields.find(Key::kPlimsollWithoutSegments)) {
    walk_without_segments(*names);
  }
  const Value* settings = fields.find(Key::kAllocatorSettings);
  if (settings != nullptr && settings->tag == Tag::kDict) {
    for (const auto& [key, value] : arena_.dicts[settings->bits]) {
      if (key.tag != Tag::kString) continue;
      const auto type = accelerator_of_setting(builder_.strings()[key.as_string()]);
      accelerator_ = type.value_or(accelerator_);
    }
  }
  if (segments != nullptr) {
    builder_.final_state_known();
    walk_segments(*segments, accelerator_);
  } else {
    diagnostics_.add(kMissingKey, 1, "snapshot.segments");
  }
  if (traces != nullptr) walk_traces(*traces, accelerator_);
  if (const Value* host = fields.find(Key::kHostSegments))
    walk_segments(*host, DeviceType::kPinnedHost);
  if (const Value* host = fields.find(Key::kHostTraces))
    walk_traces(*host, DeviceType::kPinnedHost);
  place_events();
  if (settings != nullptr) {
    builder_.settings_known();
    walk_settings(*settings, "", 0);
  }
  if (const Value* flags = fields.find(Key::kTraceOverflowed)) mark_overflowed(*flags);
  // The key is not torch's: programs add it to the dict before they write it.
  const Value* rank = fields.find(Key::kRank);
  if (rank != nullptr && rank->is_unsigned() && rank->bits < kMostRanks) {
    builder_.set_rank(static_cast<std::int64_t>(rank->bits));
  }
  if (const Value* notes = fields.find(Key::kExternalAnnotations)) walk_annotations(*notes);
  if (fields.has(Key::kUnknown)) count_unknown(entries, "snapshot");
  return {};
}

// The items of a list or tuple that is not a record; null, and counted, for anything else.
const Items* SnapshotWalk::items_of(const Value& value, const char* what) {
  static const Items kNoItems;
  if (value.tag == Tag::kEmptyList || value.tag == Tag::kNone) return &kNoItems;
  if (value.tag == Tag::kList || value.tag == Tag::kTuple) return &arena_.lists[value.bits];
  records_.bad_value(what);
  return nullptr;
}

void SnapshotWalk::count_unknown(const Entries& entries, const char* record) {
  for (const auto& [key, value] : entries) {
    if (records_.keys().of(key) == Key::kUnknown) records_.unknown_key(record, key);
  }
}

// --- devices that are not CUDA's ---------------------------------------------------------------

void SnapshotWalk::walk_devices(const Value& list) {
  const Items* items = items_of(list, "plimsoll_devices");
  if (items == nullptr) return;
  std::set<Device> distinct;
  for (const Value& item : *items) {
    if (devices_.size() == static_cast<std::size_t>(kMostDevices)) return;
    const auto device = device_named_by(item, "snapshot.plimsoll_devices");
    if (device && distinct.insert(*device).second) {
      devices_.push_back(*device);
      continue;
    }
    // If two traces name one device, their events would be mixed, so the whole list of names is
    // ignored.
    if (device) records_.bad_value("snapshot.plimsoll_devices");
    devices_.clear();
    return;
  }
}

void SnapshotWalk::walk_without_segments(const Value& list) {
  const Items* items = items_of(list, "plimsoll_without_segments");
  if (items == nullptr) return;
  const std::size_t count = std::min<std::size_t>(items->size(), kMostDevices);
  for (std::size_t at = 0; at < count; ++at) {
    const auto device = device_named_by((*items)[at], "snapshot.plimsoll_without_segments");
    if (device) builder_.final_state_unknown(*device);
  }
}

std::optional<Device> SnapshotWalk::device_named_by(const Value& value, const char* field) {
  std::optional<Device> device;
  if (value.tag == Tag::kString) device = device_named(builder_.strings()[value.as_string()]);
  if (!device) records_.bad_value(field);
  return device;
}

Device SnapshotWalk::device_at(std::int32_t ordinal) const {
  const auto at = static_cast<std::size_t>(ordinal);
  return at < devices_.size() ? devices_[at] : Device{accelerator_, ordinal};
}

// --- segments ----------------------------------------------------------------------------------

void SnapshotWalk::walk_segments(const Value& list, DeviceType type) {
  const Items* items = items_of(list, "segments");
  if (items == nullptr) return;
  for (const Value& item : *items) {
    if (item.tag == Tag::kDict) {
      walk_segment(item, type);
    } else {
      diagnostics_.add(kForeignItem, 1, "segments");
    }
  }
}

void SnapshotWalk::walk_segment(const Value& dict, DeviceType type) {
  const Entries& entries = arena_.dicts[dict.bits];
  const Fields fields(records_.keys(), entries);
  if (fields.has(Key::kUnknown)) count_unknown(entries, "segment");
  model::Segment segment;
  segment.device = Device{type, type == DeviceType::kPinnedHost ? kPinnedHostOrdinal : 0};
  if (fields.has(Key::kDevice) && type != DeviceType::kPinnedHost) {
    const std::uint64_t ordinal = records_.unsigned_of(fields, Key::kDevice, "segment");
    if (ordinal < static_cast<std::uint64_t>(kMostDevices)) {
      segment.device = device_at(static_cast<std::int32_t>(ordinal));
    } else {
      records_.bad_value("segment.device");
    }
  }
  auto size = [&](Key key) {
    return fields.has(key) ? records_.unsigned_of(fields, key, "segment") : 0;
  };
  segment.address = size(Key::kAddress);
  segment.total_size = size(Key::kTotalSize);
  segment.allocated_size = size(Key::kAllocatedSize);
  segment.active_size = size(Key::kActiveSize);
  segment.requested_size = size(Key::kRequestedSize);
  segment.stream = records_.stream_of(fields);
  segment.stack = records_.stack_of(fields, arena_);
  segment.pool = records_.pool_of(fields, Key::kSegmentPoolId, arena_);
  const std::string_view kind = builder_.strings()[records_.string_of(fields, Key::kSegmentType)];
  if (kind == "small") segment.type = model::SegmentType::kSmall;
  if (kind == "large") segment.type = model::SegmentType::kLarge;
  if (const Value* flag = fields.find(Key::kIsExpandable)) {
    segment.is_expandable = flag->tag == Tag::kBool && flag->bits == 1;
  }

  const bool is_made_up = !fields.has(Key::kSegmentType) && !fields.has(Key::kAllocatedSize);
  if (is_made_up && type != DeviceType::kPinnedHost) {
    diagnostics_.add(kMadeUpSegments);
    builder_.segments_made_up();
  }

  std::vector<model::Block> blocks;
  std::uint64_t address = segment.address;
  const Value* list = fields.find(Key::kBlocks);
  const Items* items = list == nullptr ? nullptr : items_of(*list, "segment.blocks");
  if (items == nullptr) {
    diagnostics_.add(kMissingKey, 1, "segment.blocks");
  } else {
    for (const Value& item : *items) {
      if (item.tag != Tag::kBlock) {
        diagnostics_.add(kForeignItem, 1, "segment.blocks");
        continue;
      }
      const RawBlock& raw = records_.block(item);
      blocks.push_back(raw.block);
      if (!raw.has_address) blocks.back().address = address;
      address = blocks.back().address + raw.block.size;
    }
    if (address - segment.address != segment.total_size) {
      diagnostics_.add(kSegmentSizeDiffers, 1, "segment at " + std::to_string(segment.address));
    }
  }
  builder_.add_segment(segment, blocks);
}

// --- traces ------------------------------------------------------------------------------------

void SnapshotWalk::walk_traces(const Value& list, DeviceType type) {
  // Pinned host memory is one device, however many devices there are.
  if (type == DeviceType::kPinnedHost) {
    const Device host{type, kPinnedHostOrdinal};
    if (list.tag == Tag::kEventRange) return walk_trace(list, host);
    const Items* traces = items_of(list, "host_traces");
    for (std::size_t at = 0; traces != nullptr && at < traces->size(); ++at)
      walk_trace((*traces)[at], host);
    return;
  }
  const Items* traces = items_of(list, "device_traces");
  if (traces == nullptr) return;
  if (traces->size() > static_cast<std::size_t>(kMostDevices)) {
    diagnostics_.add(kForeignItem, traces->size() - kMostDevices, "device_traces");
  }
  const std::size_t count = std::min<std::size_t>(traces->size(), kMostDevices);
  for (std::size_t ordinal = 0; ordinal < count; ++ordinal) {
    walk_trace((*traces)[ordinal], device_at(static_cast<std::int32_t>(ordinal)));
  }
}

void SnapshotWalk::walk_trace(const Value& list, Device device) {
  builder_.name_device(device);
  traced_.push_back(device);
  if (list.tag == Tag::kEventRange) return add_run(device, arena_.ranges[list.bits]);
  const Items* items = items_of(list, "device_traces");
  if (items == nullptr) return;
  // Events that are not in successive rows: the same dict twice, or shared between lists. Each use
  // counts as an event.
  for (const Value& item : *items) {
    if (item.tag != Tag::kEvent) {
      diagnostics_.add(kForeignItem, 1, "device_traces");
      continue;
    }
    add_run(device, {item.bits, 1});
  }
}

void SnapshotWalk::add_run(Device device, EventRange rows) {
  if (!runs_.empty() && runs_.back().device == device) {
    EventRange& last = runs_.back().rows;
    if (last.first + last.count == rows.first) {
      last.count += rows.count;
      return;
    }
  }
  runs_.push_back({device, rows});
}

// Whether each device has one range of rows and the ranges do not overlap, as PyTorch writes them.
bool SnapshotWalk::are_runs_apart() const {
  std::set<Device> devices;
  std::uint64_t end = 0;
  for (const auto& [device, rows] : runs_) {
    if (rows.first < end || !devices.insert(device).second) return false;
    end = rows.first + rows.count;
  }
  return true;
}

void SnapshotWalk::place_events() {
  model::Events& events = records_.events();
  std::uint64_t unplaced = events.size();
  if (are_runs_apart()) {
    for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
      events.truncate(run->rows.first + run->rows.count);
      builder_.events(run->device) = events.split_off(run->rows.first);
      unplaced -= run->rows.count;
    }
  } else {
    std::vector<bool> is_placed(events.size());
    for (const auto& [device, rows] : runs_) {
      builder_.events(device).append(events, rows.first, rows.count);
      for (std::uint64_t row = rows.first; row < rows.first + rows.count; ++row) {
        unplaced -= is_placed[row] ? 0 : 1;
        is_placed[row] = true;
      }
    }
  }
  diagnostics_.add(kUnplacedEvents, unplaced);
}

// --- settings and annotations ------------------------------------------------------------------

void SnapshotWalk::walk_settings(const Value& dict, const std::string& prefix, int depth) {
  if (dict.tag == Tag::kEmptyDict || dict.tag == Tag::kNone) return;
  if (dict.tag != Tag::kDict || depth > 4) return records_.bad_value("allocator_settings");
  for (const auto& [key, value] : arena_.dicts[dict.bits]) {
    if (settings_seen_ == kMostSettings) return records_.bad_value("allocator_settings");
    ++settings_seen_;
    if (key.tag != Tag::kString) {
      records_.bad_value("allocator_settings");
      continue;
    }
    const std::string name = prefix + std::string(builder_.strings()[key.as_string()]);
    if (records_.keys().of(key) == Key::kTraceOverflowed) {
      mark_overflowed(value);
      continue;
    }
    switch (value.tag) {
      case Tag::kBool:
        builder_.add_setting({name, value.bits == 1});
        break;
      case Tag::kInt:
        builder_.add_setting({name, value.as_int()});
        break;
      case Tag::kUint:
        builder_.add_setting({name, std::to_string(value.bits)});
        break;
      case Tag::kFloat:
        builder_.add_setting({name, value.as_float()});
        break;
      case Tag::kString:
        builder_.add_setting({name, std::string(builder_.strings()[value.as_string()])});
        break;
      case Tag::kDict:
      case Tag::kEmptyDict:
        walk_settings(value, name + ".", depth + 1);
        break;
      default:
        if (value.tag != Tag::kNone) diagnostics_.add(kUnknownKey, 1, "allocator_settings." + name);
    }
  }
}

// One flag for all devices, or one for each.
void SnapshotWalk::mark_overflowed(const Value& value) {
  const auto is_set = [](const Value& flag) { return flag.tag == Tag::kBool && flag.bits == 1; };
  const bool is_list = value.tag == Tag::kList || value.tag == Tag::kTuple;
  for (std::size_t at = 0; at < traced_.size(); ++at) {
    const bool is_truncated =
        !is_list ? is_set(value)
                 : at < arena_.lists[value.bits].size() && is_set(arena_.lists[value.bits][at]);
    if (is_truncated) builder_.mark_truncated(traced_[at]);
  }
}

void SnapshotWalk::walk_annotations(const Value& list) {
  const Items* items = items_of(list, "external_annotations");
  if (items == nullptr) return;
  std::vector<std::optional<Annotation>> begun;  // empty: already ended
  std::map<std::pair<std::uint32_t, Device>, std::vector<std::size_t>>
      open;  // indices into `begun`
  std::uint64_t unpaired = 0;
  for (const Value& item : *items) {
    if (item.tag != Tag::kDict) {
      diagnostics_.add(kForeignItem, 1, "external_annotations");
      continue;
    }
    const Fields fields(records_.keys(), arena_.dicts[item.bits]);
    Annotation annotation;
    annotation.name = records_.string_of(fields, Key::kName);
    if (const Value* device = fields.find(Key::kDevice);
        device != nullptr && device->is_unsigned()) {
      annotation.device =
          device_at(static_cast<std::int32_t>(std::min<std::uint64_t>(device->bits, kMostDevices)));
    }
    const std::int64_t time_ns = records_.time_ns_of(fields);
    const std::string_view stage = builder_.strings()[records_.string_of(fields, Key::kStage)];
    std::vector<std::size_t>& same = open[{annotation.name.value, annotation.device}];
    if (stage == "START") {
      annotation.begin_ns = time_ns;
      same.push_back(begun.size());
      begun.emplace_back(annotation);
      continue;
    }
    // Ranges nest, so an END closes the last START with its name.
    if (same.empty()) {
      ++unpaired;
    } else {
      std::optional<Annotation>& begin = begun[same.back()];
      annotation.begin_ns = begin->begin_ns;
      begin.reset();
      same.pop_back();
    }
    annotation.end_ns = time_ns;
    builder_.add_annotation(annotation);
  }
  for (const std::optional<Annotation>& annotation : begun) {
    if (!annotation) continue;
    builder_.add_annotation(*annotation);
    ++unpaired;
  }
  diagnostics_.add(kUnpairedAnnotation, unpaired);
}

}  // namespace plimsoll::readers::torch_snapshot
