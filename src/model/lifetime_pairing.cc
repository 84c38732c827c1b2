#include "model/lifetime_pairing.h"

#include <algorithm>
#include <string>

#include "model/diagnostics.h"

namespace plimsoll::model {
namespace {

constexpr std::uint32_t kProgressEvery = 1 << 20;

std::string place(const DeviceTrace& device, std::uint32_t event) {
  return to_string(device.device) + " event " + std::to_string(event);
}

}  // namespace

std::uint32_t LifetimePairing::add_row(Lifetimes& table, std::uint32_t alloc,
                                       std::uint32_t requested, std::uint32_t completed,
                                       std::uint32_t block) {
  table.alloc.push_back(alloc);
  table.free_requested.push_back(requested);
  table.free_completed.push_back(completed);
  const auto row = static_cast<std::uint32_t>(table.size() - 1);
  table.block.set(row, block);
  return row;
}

void LifetimePairing::run(base::Progress& progress) {
  pair_events(progress);
  if (device_.has_final_state) match_final_blocks();
  join();
}

void LifetimePairing::pair_events(base::Progress& progress) {
  const auto count = static_cast<std::uint32_t>(device_.events.size());
  const Action* const action = device_.events.action.data();
  const std::uint64_t* const address = device_.events.address.data();
  for (std::uint32_t event = 0; event < count; ++event) {
    if (event % kProgressEvery == 0) {
      progress.advance("pairing allocations with frees", event, count);
      if (progress.interrupted()) return;
    }
    switch (action[event]) {
      case Action::kAlloc:
        on_alloc(event, address[event]);
        break;
      case Action::kFreeRequested:
        on_free_requested(event, address[event]);
        break;
      case Action::kFreeCompleted:
        on_free_completed(event, address[event], kBeforeRecording);
        break;
      case Action::kFree:
        on_free_completed(event, address[event], event);
        break;
      case Action::kSegmentAlloc:
      case Action::kSegmentFree:
      case Action::kSegmentMap:
      case Action::kSegmentUnmap:
      case Action::kSnapshot:
      case Action::kOom:
      case Action::kAnnotate:
      case Action::kUnknown:
        break;
    }
  }
}

void LifetimePairing::on_alloc(std::uint32_t event, std::uint64_t address) {
  const std::uint32_t row = add_row(seen_, event, kNone, kNone, kNone);
  auto [slot, is_new] = live_.try_emplace(address, row);
  if (!is_new) {
    diagnostics_.add(kAllocOverLive, 1, place(device_, event));
    const std::uint32_t old = slot->second;
    if (seen_.free_requested[old] == kNone) seen_.free_requested[old] = event;
    seen_.free_completed[old] = event;
    slot.value() = row;
  }
}

void LifetimePairing::check_size(std::uint32_t lifetime, std::uint32_t event) {
  const auto& sizes = device_.events.size_bytes;
  if (sizes[seen_.alloc[lifetime]] != sizes[event]) {
    diagnostics_.add(kFreeSizeDiffers, 1, place(device_, event));
  }
}

void LifetimePairing::on_free_requested(std::uint32_t event, std::uint64_t address) {
  auto found = live_.find(address);
  if (found != live_.end() && seen_.free_requested[found->second] == kNone) {
    seen_.free_requested[found->second] = event;
    check_size(found->second, event);
    return;
  }
  // The allocation was born before the recording. Until its free_completed, it is found through a
  // row of seen_, which join() moves.
  diagnostics_.add(kFreeWithoutAlloc, 1, place(device_, event));
  live_[address] = add_row(seen_, kNone, event, kNone, kNone);
}

void LifetimePairing::on_free_completed(std::uint32_t event, std::uint64_t address,
                                        std::uint32_t requested) {
  std::uint32_t row = kNone;
  if (auto found = live_.find(address); found != live_.end()) {
    row = found->second;
    live_.erase(address, AddressHash{}(address));
  }
  if (row == kNone) {
    diagnostics_.add(kFreeWithoutAlloc, 1, place(device_, event));
    add_row(seen_, kNone, requested, event, kNone);
    return;
  }
  if (seen_.free_requested[row] == kNone) {  // its free_requested is missing
    seen_.free_requested[row] = event;
    check_size(row, event);
  }
  seen_.free_completed[row] = event;
}

// Whether the file has no requests of frees: blocks then count as allocated until their free is
// completed (lone_frees.h).
bool LifetimePairing::has_lone_completions() const {
  const auto& actions = device_.events.action;
  const auto has = [&](Action action) {
    return std::ranges::find(actions.span(), action) != actions.span().end();
  };
  return has(Action::kFree) && !has(Action::kFreeRequested);
}

void LifetimePairing::match_final_blocks() {
  const auto of_pending = has_lone_completions() ? kNone : kBeforeRecording;
  for (std::uint32_t s = 0; s < device_.segment_count; ++s) {
    const Segment& segment = trace_.segments[device_.first_segment + s];
    for (std::uint32_t b = segment.first_block; b < segment.first_block + segment.block_count;
         ++b) {
      const Block& block = trace_.blocks[b];
      if (block.state == BlockState::kInactive) continue;
      auto found = live_.find(block.address);
      if (found == live_.end()) {
        const bool is_pending = block.state == BlockState::kActivePendingFree;
        add_row(before_, kNone, is_pending ? of_pending : kNone, kNone, b);
        continue;
      }
      const std::uint32_t row = found->second;
      live_.erase(block.address, AddressHash{}(block.address));
      seen_.block.set(row, b);
      const std::uint32_t reported =
          seen_.alloc[row] != kNone ? seen_.alloc[row] : seen_.free_requested[row];
      if (device_.events.size_bytes[reported] != block.requested_size) {
        diagnostics_.add(kBlockSizeDiffers, 1, place(device_, reported));
      }
      const bool is_freed = seen_.free_requested[row] != kNone;
      if (is_freed && block.state == BlockState::kActiveAllocated) {
        diagnostics_.add(kBlockWhileFreed, 1, place(device_, reported));
      }
    }
  }
  if (device_.events.size() > 0) {
    diagnostics_.add(kLiveBeforeRecording, before_.size(), to_string(device_.device));
  }
  for (const auto& [address, row] : live_) {
    const std::uint32_t reported =
        seen_.alloc[row] != kNone ? seen_.alloc[row] : seen_.free_requested[row];
    diagnostics_.add(kLiveWithoutBlock, 1, place(device_, reported));
  }
}

void LifetimePairing::join() {
  // Baseline lifetimes first: blocks without any event, then those with only a free.
  const auto born_in_recording = [&](std::size_t row) { return seen_.alloc[row] != kNone; };
  std::size_t unborn = 0;
  for (std::size_t row = 0; row < seen_.size(); ++row) unborn += born_in_recording(row) ? 0 : 1;
  device_.lifetimes.baseline_count = static_cast<std::uint32_t>(before_.size() + unborn);
  if (before_.size() + unborn == 0) {
    device_.lifetimes = std::move(seen_);
    device_.lifetimes.baseline_count = 0;
    return;
  }
  Lifetimes all;
  const std::size_t total = before_.size() + seen_.size();
  all.alloc.reserve(total);
  all.free_requested.reserve(total);
  all.free_completed.reserve(total);
  auto copy = [&](const Lifetimes& from, std::size_t row) {
    add_row(all, from.alloc[row], from.free_requested[row], from.free_completed[row],
            from.block[row]);
  };
  for (std::size_t row = 0; row < before_.size(); ++row) copy(before_, row);
  for (std::size_t row = 0; row < seen_.size(); ++row) {
    if (!born_in_recording(row)) copy(seen_, row);
  }
  for (std::size_t row = 0; row < seen_.size(); ++row) {
    if (born_in_recording(row)) copy(seen_, row);
  }
  all.baseline_count = device_.lifetimes.baseline_count;
  device_.lifetimes = std::move(all);
}

}  // namespace plimsoll::model
