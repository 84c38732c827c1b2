// Random recordings of a small caching allocator whose every state is known, for property tests.
// The same seed gives the same recording on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace.h"
#include "model/trace_builder.h"
#include "tests/tiles/random_attribution.h"

namespace plimsoll::tests {

struct RandomMemoryOptions {
  std::uint32_t seed = 0;
  std::size_t operations = 150;
  std::uint32_t devices = 2;
  enum class Times : std::uint8_t { kAscending, kBackwards, kUnknown } times = Times::kAscending;
  bool frees_in_reverse = false;  // otherwise in random order
  bool has_block_sizes = false;
  bool has_final_state = true;
  bool has_steps = true;
  bool is_contradictory = false;  // includes events that no allocator makes
};

// The true state of a device.
struct DeviceState {
  std::int64_t live_bytes = 0;  // as the report's tables count them
  std::int64_t reserved_bytes = 0;
};

struct KnownMemory {
  model::Trace trace;
  // By device, in the order of the trace.
  std::vector<DeviceState> before;
  std::vector<std::vector<DeviceState>> after;  // by device: after each event
  std::vector<std::int64_t> unknown_bytes;      // by device: live throughout, in no event or block
};

class RandomMemory {
 public:
  explicit RandomMemory(const RandomMemoryOptions& options)
      : options_(options), random_(options.seed), devices_(options.devices) {
    pools_ = {model::PoolId{}, builder_.pool({0, 0}), builder_.pool({1, 7})};
    streams_ = {builder_.stream(0), builder_.stream(77)};
    for (std::uint32_t d = 0; d < options.devices; ++d) prepare(d);
    for (std::size_t i = 0; i < options.operations; ++i) operate(below(options.devices));
    if (options.has_final_state) add_final_state();
    if (options.has_block_sizes) {
      for (std::uint32_t d = 0; d < options.devices; ++d) builder_.blocks_reported(name_of(d));
    }
    if (one_in(5)) builder_.mark_truncated(name_of(0));
  }

  KnownMemory finish() {
    base::Progress progress;
    auto trace = builder_.finish("random_memory", progress);
    EXPECT_TRUE(trace.ok());
    KnownMemory known;
    known.trace = std::move(trace).value();
    for (Device& device : devices_) {
      known.before.push_back(device.before);
      known.after.push_back(std::move(device.after));
      std::int64_t unknown = 0;
      if (!options_.has_final_state) {
        for (const Segment& segment : device.segments) {
          for (const auto& [address, block] : segment.blocks) {
            if (block.is_silent) unknown += counted(block);
          }
        }
      }
      known.unknown_bytes.push_back(unknown);
    }
    return known;
  }

 private:
  static constexpr std::uint64_t kSmallBytes = 2 << 20, kLargeBytes = 20 << 20;

  struct Block {
    std::uint64_t requested = 0;
    std::uint64_t size = 0;
    model::StackId stack;
    bool is_pending = false;
    bool is_silent = false;  // absent from all events
  };
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
    model::StreamId stream;
    model::PoolId pool;
    bool is_small = false;
    bool is_expandable = false;
    std::map<std::uint64_t, Block> blocks;
  };
  struct Place {
    std::size_t segment;
    std::uint64_t address;
  };
  struct Device {
    std::vector<Segment> segments;
    std::vector<Place> live;  // in order of allocation; none in freed segments
    std::uint64_t next_address = 0;
    DeviceState before;
    std::vector<DeviceState> after;
  };

  // std::uniform_int_distribution is not used, because its results differ between libraries.
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }

  static model::Device name_of(std::uint32_t d) {
    return {model::DeviceType::kCuda, static_cast<std::int32_t>(d)};
  }
  std::int64_t counted(const Block& block) const {
    if (options_.has_block_sizes)
      return block.is_pending ? 0 : static_cast<std::int64_t>(block.size);
    return static_cast<std::int64_t>(block.requested);
  }
  DeviceState state_of(const Device& device) const {
    DeviceState state;
    for (const Segment& segment : device.segments) {
      state.reserved_bytes += static_cast<std::int64_t>(segment.size);
      for (const auto& [address, block] : segment.blocks) state.live_bytes += counted(block);
    }
    return state;
  }

  // Creates what is live before the first event.
  void prepare(std::uint32_t d) {
    builder_.name_device(name_of(d));
    Device& device = devices_[d];
    device.next_address = std::uint64_t{1} << 32;
    is_recording_ = false;
    for (std::uint32_t i = below(8); i > 0; --i) {
      const Place place = allocate(d);
      Block& block = block_at(device, place);
      block.is_silent = true;
      block.is_pending = one_in(4);
    }
    is_recording_ = true;
    device.before = state_of(device);
  }

  void operate(std::uint32_t d) {
    if (options_.has_steps && one_in(12)) add_mark();
    const std::uint32_t dice = below(100);
    if (dice < 48) {
      allocate(d);
    } else if (dice < 90) {
      free_one(d);
    } else if (dice < 95) {
      free_segment(d);
    } else if (options_.is_contradictory) {
      contradict(d);
    } else {
      emit(d, model::Action::kOom, 5, 1 << 30, {}, {});
    }
  }

  void add_mark() {
    model::Mark mark;
    mark.time_ns = options_.times == RandomMemoryOptions::Times::kUnknown ? model::kNoTime : now_;
    mark.step = ++step_;
    builder_.add_mark(mark);
  }

  Place allocate(std::uint32_t d) {
    Device& device = devices_[d];
    Block block;
    block.requested = one_in(8) ? below(24 << 20) : below(1 << 16);
    block.size = std::max<std::uint64_t>(512, (block.requested + 511) / 512 * 512);
    block.stack = attribution_.stack();
    const bool is_small = block.requested <= 1 << 20;
    const model::StreamId stream = streams_[below(2)];
    const model::PoolId pool = pools_[below(3)];
    const Place place = place_for(d, block.size, is_small, stream, pool);
    block_at(device, place) = block;
    device.live.push_back(place);
    model::Event event;
    event.stream = stream;
    event.pool = one_in(6) ? model::PoolId{} : pool;
    event.stack = block.stack;
    const model::Hindsight hindsight = attribution_.attribute(event);
    emit(d, model::Action::kAlloc, place.address, block.requested, event, hindsight);
    return place;
  }

  // First fit, or else a new segment or page.
  Place place_for(std::uint32_t d, std::uint64_t size, bool is_small, model::StreamId stream,
                  model::PoolId pool) {
    Device& device = devices_[d];
    for (std::size_t s = 0; s < device.segments.size(); ++s) {
      const Segment& segment = device.segments[s];
      if (segment.size == 0 || segment.is_small != is_small || segment.stream != stream ||
          segment.pool != pool) {
        continue;
      }
      std::uint64_t at = segment.address;
      for (const auto& [address, block] : segment.blocks) {
        if (address - at >= size) break;
        at = address + block.size;
      }
      if (segment.address + segment.size - at >= size) return {s, at};
      if (segment.is_expandable) return grow(d, s, at, size);
    }
    Segment segment;
    segment.address = device.next_address;
    segment.stream = stream;
    segment.pool = pool;
    segment.is_small = is_small;
    segment.is_expandable = one_in(2);
    segment.size = new_bytes(segment, size);
    device.next_address += std::uint64_t{1} << 32;
    device.segments.push_back(segment);
    emit_segment(d,
                 segment.is_expandable ? model::Action::kSegmentMap : model::Action::kSegmentAlloc,
                 segment, segment.address, segment.size);
    return {device.segments.size() - 1, segment.address};
  }
  // The bytes that a request of this size adds: whole pages, or a segment that leaves a small tail.
  static std::uint64_t new_bytes(const Segment& segment, std::uint64_t size) {
    const std::uint64_t page = segment.is_small ? kSmallBytes : kLargeBytes;
    if (!segment.is_expandable && size > kLargeBytes / 2) {
      return (size + kSmallBytes - 1) / kSmallBytes * kSmallBytes;
    }
    return (size + page - 1) / page * page;
  }
  Place grow(std::uint32_t d, std::size_t s, std::uint64_t free_from, std::uint64_t size) {
    Segment& segment = devices_[d].segments[s];
    const std::uint64_t address = segment.address + segment.size;
    const std::uint64_t bytes = new_bytes(segment, size - (address - free_from));
    segment.size += bytes;
    emit_segment(d, model::Action::kSegmentMap, segment, address, bytes);
    return {s, free_from};
  }

  static Block& block_at(Device& device, const Place& place) {
    return device.segments[place.segment].blocks[place.address];
  }

  void free_one(std::uint32_t d) {
    Device& device = devices_[d];
    if (device.live.empty()) return;
    const auto last = static_cast<std::uint32_t>(device.live.size() - 1);
    const std::uint32_t which = options_.frees_in_reverse ? last : below(last + 1);
    const Place place = device.live[which];
    Block& block = block_at(device, place);
    block.is_silent = false;
    const std::uint64_t requested = block.requested;
    model::Event event;
    event.padding_bytes = block.size - requested;
    event.stream = device.segments[place.segment].stream;
    const auto emit_free = [&](model::Action action) {
      emit(d, action, place.address, requested, event, {});
    };
    if (!block.is_pending && one_in(3)) {
      remove(device, which);
      return emit_free(model::Action::kFree);
    }
    if (!block.is_pending) {
      block.is_pending = true;
      emit_free(model::Action::kFreeRequested);
      if (one_in(3)) return;
    }
    remove(device, which);
    emit_free(model::Action::kFreeCompleted);
  }
  static void remove(Device& device, std::uint32_t which) {
    const Place place = device.live[which];
    device.segments[place.segment].blocks.erase(place.address);
    device.live.erase(device.live.begin() + which);
  }

  void free_segment(std::uint32_t d) {
    for (Segment& segment : devices_[d].segments) {
      if (segment.size == 0 || !segment.blocks.empty()) continue;
      const std::uint64_t size = segment.size;
      segment.size = 0;
      return emit_segment(
          d, segment.is_expandable ? model::Action::kSegmentUnmap : model::Action::kSegmentFree,
          segment, segment.address, size);
    }
  }

  // Adds a contradictory event. The true state is then unknown, so tests can check only what the
  // trace implies.
  void contradict(std::uint32_t d) {
    Device& device = devices_[d];
    const std::uint64_t address =
        device.live.empty()
            ? 4096
            : device.live[below(static_cast<std::uint32_t>(device.live.size()))].address;
    static constexpr std::array kActions = {model::Action::kAlloc, model::Action::kFreeRequested,
                                            model::Action::kFreeCompleted, model::Action::kFree,
                                            model::Action::kSegmentFree};
    const std::uint64_t size = one_in(4) ? ~std::uint64_t{0} - below(9) : below(1 << 16);
    emit(d, kActions[below(kActions.size())], address, size, {}, {});
  }

  void emit_segment(std::uint32_t d, model::Action action, const Segment& segment,
                    std::uint64_t address, std::uint64_t size) {
    model::Event event;
    event.stream = segment.stream;
    event.pool = segment.pool;
    emit(d, action, address, size, event, {});
  }
  // `event` already has the site and the padding.
  void emit(std::uint32_t d, model::Action action, std::uint64_t address, std::uint64_t size,
            model::Event event, const model::Hindsight& hindsight) {
    if (!is_recording_) return;
    event.action = action;
    event.address = address;
    event.size_bytes = size;
    event.time_ns = next_time();
    if (action == model::Action::kAlloc) {
      const Device& device = devices_[d];
      if (!device.live.empty() && device.live.back().address == address) {
        event.padding_bytes = block_at(devices_[d], device.live.back()).size - size;
      }
      builder_.add_alloc(name_of(d), event, hindsight);
    } else {
      builder_.add_event(name_of(d), event);
    }
    devices_[d].after.push_back(state_of(devices_[d]));
  }
  std::int64_t next_time() {
    switch (options_.times) {
      case RandomMemoryOptions::Times::kUnknown:
        return model::kNoTime;
      case RandomMemoryOptions::Times::kAscending:
        return now_ += below(3) * 500;
      case RandomMemoryOptions::Times::kBackwards:
        now_ += below(2'000);
        return one_in(10) ? model::kNoTime : now_ - below(5'000);
    }
    return now_;
  }

  void add_final_state() {
    builder_.final_state_known();
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
      for (const Segment& segment : devices_[d].segments) {
        if (segment.size == 0) continue;
        model::Segment row;
        row.device = name_of(d);
        row.address = segment.address;
        row.total_size = segment.size;
        row.stream = segment.stream;
        row.pool = segment.pool;
        row.type = segment.is_small ? model::SegmentType::kSmall : model::SegmentType::kLarge;
        row.is_expandable = segment.is_expandable;
        builder_.add_segment(row, blocks_of(segment));
      }
    }
  }
  static std::vector<model::Block> blocks_of(const Segment& segment) {
    std::vector<model::Block> rows;
    std::uint64_t at = segment.address;
    const auto add = [&](std::uint64_t size, const Block& block, model::BlockState state) {
      if (size > 0) rows.push_back({at, size, block.requested, block.stack, state});
      at += size;
    };
    for (const auto& [address, block] : segment.blocks) {
      add(address - at, {}, model::BlockState::kInactive);
      add(block.size, block,
          block.is_pending ? model::BlockState::kActivePendingFree
                           : model::BlockState::kActiveAllocated);
    }
    add(segment.address + segment.size - at, {}, model::BlockState::kInactive);
    return rows;
  }

  RandomMemoryOptions options_;
  std::mt19937 random_;
  base::Diagnostics diagnostics_;
  model::TraceBuilder builder_{diagnostics_};
  std::vector<Device> devices_;
  RandomAttribution attribution_{builder_, random_};
  std::vector<model::PoolId> pools_;
  std::vector<model::StreamId> streams_;
  std::int64_t now_ = 1'000'000;
  std::uint64_t step_ = 10;
  bool is_recording_ = true;
};

}  // namespace plimsoll::tests
