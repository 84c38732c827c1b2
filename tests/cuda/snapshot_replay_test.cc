// Replays real snapshots in the shadow heap. Seeded from the state before their events (the final
// state rolled back), it must end with exactly the blocks that torch recorded.
//
// The rolled-back state lacks one fact: the tail of up to 1 MiB that a large block kept when it was
// allocated, if the block was freed in the recording and the memory after it was free at the
// beginning. The first allocation after the block reveals the tail, and the replay starts again
// with it. (An adapter seeds from a snapshot, which has the sizes.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/load.h"
#include "model/heap_layout.h"
#include "model/live_set.h"
#include "model/segment_history.h"
#include "plimsoll/caching_allocator.h"
#include "shadow_heap.h"
#include "tests/support/samples.h"

namespace plimsoll::tests {
namespace {

namespace fs = std::filesystem;
using libtorch_cuda::BlockState;
using libtorch_cuda::HeapPool;
using libtorch_cuda::HeapSettings;
using libtorch_cuda::ShadowHeap;
using model::Action;

// Samples that cannot be replayed, with the reason. Every other sample with events must be.
constexpr std::array<std::pair<const char*, const char*>, 1> kNotReplayed = {{
    {"cut_down_inconsistent.pickle", "its owner cut it down: events and segments disagree"},

}};

struct Row {
  std::uint64_t address = 0, size = 0, requested = 0;
  BlockState state = BlockState::kInactive;
  bool operator==(const Row&) const = default;
};
std::string text_of(const Row& row) {
  return std::to_string(row.address) + " " + std::to_string(row.size) + " " +
         std::to_string(row.requested) + " " + std::to_string(static_cast<int>(row.state));
}

HeapSettings settings_of(const model::Trace& trace) {
  HeapSettings settings;
  if (const auto* expandable = trace.setting("expandable_segments")) {
    const bool* value = std::get_if<bool>(&expandable->value);
    settings.has_expandable_segments = value != nullptr && *value;
  }
  if (const auto* split = trace.setting("max_split_size")) {
    const auto* value = std::get_if<std::int64_t>(&split->value);
    if (value != nullptr && *value > 0) {
      settings.max_split_bytes = static_cast<std::uint64_t>(*value);
    }
  }
  for (std::size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i) {
    const auto* entry =
        trace.setting("roundup_power2_divisions." + std::to_string(std::uint64_t{1} << i));
    const auto* value = entry != nullptr ? std::get_if<std::int64_t>(&entry->value) : nullptr;
    if (value != nullptr) {
      settings.roundup_power2_divisions[i] = static_cast<std::uint32_t>(*value);
    }
  }
  return settings;
}

using Tails = std::map<std::uint64_t, std::uint64_t>;  // address of a block -> its size

class Replay {
 public:
  Replay(const model::Trace& trace, const model::DeviceTrace& device)
      : trace_(trace), device_(device), heap_(settings_of(trace)) {}

  void seed(const Tails& tails) {
    const std::array<std::int64_t, 1> start = {model::kBeforeFirst};
    const auto live = model::live_set(device_, model::Liveness::kActive, start[0]);
    const auto layout =
        model::layout_of(trace_, device_, model::segments_at(trace_, device_, start)[0], live);
    const auto pending = pending_at_start(live);
    const auto gaps = layout.gaps();
    for (std::uint32_t s = 0; s < layout.segments.size(); ++s) {
      const model::SegmentRange& segment = layout.segments[s];
      heap_.add_segment(segment.address, segment.size_bytes, trace_.streams[segment.stream.index()],
                        {}, segment.is_expandable);
      std::vector<Row> rows;
      for (std::size_t b = layout.first_block_after(segment.address);
           b < layout.blocks.size() && layout.blocks[b].address < segment.end(); ++b) {
        const model::PlacedBlock& block = layout.blocks[b];
        const bool is_pending = std::ranges::binary_search(pending, block.address);
        rows.push_back({block.address, block.size_bytes, block.requested_bytes,
                        is_pending ? BlockState::kPendingFree : BlockState::kAllocated});
      }
      for (const model::FreeGap& gap : gaps) {
        if (gap.segment == s) rows.push_back({gap.address, gap.size_bytes, 0, {}});
        if (gap.segment == s) rows.back().state = BlockState::kInactive;
      }
      std::ranges::sort(rows, {}, &Row::address);
      for (const Row& row : rows) heap_.add_block(row.address, row.size, row.requested, row.state);
      seeded_.insert(seeded_.end(), rows.begin(), rows.end());
    }
    for (const auto& [address, size] : tails) EXPECT_TRUE(heap_.correct(address, size));
  }

  // Finds the seeded block whose tail the first misfit reveals; false if there is none.
  bool learn(Tails& tails) const {
    if (!misfit_) return false;
    const auto after = std::ranges::upper_bound(seeded_, *misfit_, {}, &Row::address);
    if (after - seeded_.begin() < 2) return false;
    const Row& gap = *(after - 1);
    const Row& block = *(after - 2);
    const bool is_tail = gap.state == BlockState::kInactive && block.state != gap.state &&
                         block.address + block.size == gap.address &&
                         *misfit_ - gap.address <= caching_allocator::kLargestSmallRequest;
    return is_tail && tails.emplace(block.address, *misfit_ - block.address).second;
  }

  void run() {
    for (std::size_t e = 0; e < device_.events.size(); ++e) {
      const model::Event event = trace_.event(device_, e);
      const std::uint64_t misfits = heap_.unexplained();
      step(event);
      if (heap_.unexplained() != misfits && first_misfit_.empty()) {
        if (event.action == Action::kAlloc) misfit_ = event.address;
        first_misfit_ = "event " + std::to_string(e) + " " + to_string(event.action) + " " +
                        std::to_string(event.address) + " " + std::to_string(event.size_bytes);
      }
    }
  }

  std::vector<Row> blocks() const {
    std::vector<Row> rows;
    heap_.for_each_block([&](std::uint64_t address, std::uint64_t size, std::uint64_t requested,
                             std::uint64_t, HeapPool, BlockState state) {
      const bool is_free = state == BlockState::kInactive;
      rows.push_back({address, size, is_free ? 0 : requested, state});
    });
    return rows;
  }
  std::vector<Row> recorded() const {
    std::vector<Row> rows;
    const auto segments = trace_.segments.span(device_.first_segment, device_.segment_count);
    for (const model::Segment& segment : segments) {
      for (const auto& block : trace_.blocks.span(segment.first_block, segment.block_count)) {
        const bool is_free = block.state == model::BlockState::kInactive;
        const auto state = is_free ? BlockState::kInactive
                           : block.state == model::BlockState::kActiveAllocated
                               ? BlockState::kAllocated
                               : BlockState::kPendingFree;
        rows.push_back({block.address, block.size, is_free ? 0 : block.requested_size, state});
      }
    }
    return rows;
  }
  std::uint64_t misfits() const { return heap_.unexplained(); }
  const std::string& first_misfit() const { return first_misfit_; }

 private:
  std::vector<std::uint64_t> pending_at_start(std::span<const std::uint32_t> live) const {
    std::vector<std::uint64_t> addresses;
    for (const std::uint32_t row : live) {
      if (device_.lifetimes.free_requested[row] == model::kBeforeRecording) {
        addresses.push_back(trace_.address(device_, row));
      }
    }
    std::ranges::sort(addresses);
    return addresses;
  }

  void step(const model::Event& event) {
    const std::uint64_t stream = trace_.streams[event.stream.index()];
    switch (event.action) {
      case Action::kAlloc:
        heap_.alloc(event.address, event.size_bytes, stream);
        return;
      case Action::kFreeRequested:
        heap_.free_requested(event.address);
        return;
      case Action::kFreeCompleted:
        heap_.free_completed(event.address);
        return;
      case Action::kSegmentAlloc:
      case Action::kSegmentFree:
      case Action::kSegmentMap:
      case Action::kSegmentUnmap:
        heap_.segment(static_cast<std::uint8_t>(static_cast<int>(event.action) -
                                                static_cast<int>(Action::kSegmentAlloc)),
                      event.address, event.size_bytes, stream, {});
        return;
      default:
        return;
    }
  }

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  ShadowHeap heap_;
  std::vector<Row> seeded_;
  std::string first_misfit_;
  std::optional<std::uint64_t> misfit_;  // the address of an allocation
};

TEST(SnapshotReplay, ends_with_the_blocks_of_every_sample) {
  PLIMSOLL_NEEDS_SAMPLES();
  std::size_t events = 0, replayed = 0;
  std::vector<fs::path> files;
  for (const auto& file : fs::directory_iterator(samples_folder() / "snapshots")) {
    files.push_back(file.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    SCOPED_TRACE(name);
    const auto reason =
        std::ranges::find(kNotReplayed, name, [](const auto& r) { return r.first; });
    if (reason != kNotReplayed.end()) {
      std::cout << name << ": not replayed, " << reason->second << "\n";
      continue;
    }
    base::Progress progress;
    const auto loaded = engine::load(file.string(), progress);
    ASSERT_TRUE(loaded.ok());
    for (const model::DeviceTrace& device : loaded->trace.devices) {
      if (device.device.type != model::DeviceType::kCuda) continue;
      Tails tails;
      std::optional<Replay> replay_made;
      do {
        replay_made.emplace(loaded->trace, device);
        replay_made->seed(tails);
        replay_made->run();
      } while (replay_made->learn(tails));
      const Replay& replay = *replay_made;
      EXPECT_EQ(replay.misfits(), 0u) << replay.first_misfit();
      const auto ours = replay.blocks(), theirs = replay.recorded();
      EXPECT_EQ(ours.size(), theirs.size());
      const auto [a, b] = std::ranges::mismatch(ours, theirs);
      if (a != ours.end() || b != theirs.end()) {
        ADD_FAILURE() << "ours " << (a != ours.end() ? text_of(*a) : "ends") << ", torch's "
                      << (b != theirs.end() ? text_of(*b) : "ends");
      }
      std::cout << name << " " << to_string(device.device) << ": " << device.events.size()
                << " events, " << theirs.size() << " blocks";
      if (!tails.empty()) std::cout << ", " << tails.size() << " tails known with hindsight";
      std::cout << "\n";
      events += device.events.size();
      ++replayed;
    }
  }
  std::cout << replayed << " devices, " << events << " events\n";
  EXPECT_GT(events, 50'000u);
}

}  // namespace
}  // namespace plimsoll::tests
