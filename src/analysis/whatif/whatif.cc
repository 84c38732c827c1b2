#include "analysis/whatif/whatif.h"

#include "model/live_set.h"

namespace plimsoll::analysis::whatif {

using model::kNone;

Replay::Replay(const model::Trace& trace, const model::DeviceTrace& device)
    : lifetimes_(device.lifetimes.size()),
      first_(device.lifetimes.baseline_count),
      change_(device.events.size() + 1) {
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (std::uint32_t row = 0; row < lifetimes_.size(); ++row) {
    Life& life = lifetimes_[row];
    life.born = lifetimes.alloc[row];
    life.died = model::death(lifetimes, row, model::default_liveness(device));
    if (life.died == model::kBeforeRecording) continue;  // it counts no bytes
    life.bytes = trace.lifetime_bytes(device, row);
    if (row < first_) {
      before_ += life.bytes;
    } else {
      change_[life.born] += life.bytes;
    }
    if (life.died < change_.size()) change_[life.died] -= life.bytes;
  }
  peak_bytes_ = peak_of(change_);
}

void Replay::remove(const Life& life, Absence absence, std::vector<std::uint64_t>& change) {
  const std::uint32_t first = life.born == kNone ? 0 : life.born;  // it may be from before
  const std::uint32_t gone = std::max(absence.from, first);
  const std::uint32_t back = std::min(absence.to, life.died);
  if (gone >= back || gone >= change.size()) return;
  change[gone] -= life.bytes;
  if (back < change.size()) change[back] += life.bytes;
}

std::uint64_t Replay::peak_of(const std::vector<std::uint64_t>& change) const {
  std::uint64_t live = before_, most = 0;
  for (std::size_t event = 0; event + 1 < change.size(); ++event) {
    live += change[event];
    // A hostile file may have any sizes: sums that wrap are no peak.
    if (live < std::uint64_t{1} << 63u) most = std::max(most, live);
  }
  return most;
}

std::uint64_t Replay::saved(const std::vector<std::uint64_t>& change) const {
  return peak_bytes_ - std::min(peak_bytes_, peak_of(change));
}

// Each row is made only when the one `count` before it has died.
void Replay::delay(std::size_t count, std::span<const std::uint32_t> rows,
                   std::vector<std::uint64_t>& change) const {
  for (std::size_t i = count; i < rows.size(); ++i) {
    const Life& life = lifetimes_[rows[i]];
    remove(life, Absence{life.born, lifetimes_[rows[i - count]].died}, change);
  }
}

std::uint64_t Replay::never_made(std::span<const std::uint32_t> rows) const {
  std::vector<std::uint64_t> change = change_;
  for (const std::uint32_t row : rows) remove(lifetimes_[row], Absence{0, kNone}, change);
  return saved(change);
}

std::uint64_t Replay::freed_early(std::span<const Freed> rows) const {
  std::vector<std::uint64_t> change = change_;
  for (const auto& [row, event] : rows) remove(lifetimes_[row], Absence{event, kNone}, change);
  return saved(change);
}

std::uint64_t Replay::at_most(std::size_t count, std::span<const std::uint32_t> rows) const {
  std::vector<std::uint64_t> change = change_;
  delay(count, rows, change);
  return saved(change);
}

std::uint64_t Replay::in_chunks(std::span<const std::uint32_t> forward,
                                std::span<const std::uint32_t> backward,
                                std::span<const std::uint32_t> read) const {
  constexpr std::uint64_t kChunks = 16;  // more would save little more
  std::vector<std::uint64_t> change = change_;
  for (const std::uint32_t row : forward) {
    Life life = lifetimes_[row];
    life.bytes -= life.bytes / kChunks;
    remove(life, Absence{0, kNone}, change);
  }
  delay(1, backward, change);
  for (const std::uint32_t row : read) {
    const Life& life = lifetimes_[row];
    const auto next = std::ranges::upper_bound(
        backward, life.born, {}, [&](std::uint32_t each) { return lifetimes_[each].born; });
    const std::uint32_t until = next == backward.end() ? life.died : lifetimes_[*next].died;
    if (until <= life.died) continue;
    change[life.died] += life.bytes;
    if (until < change.size()) change[until] -= life.bytes;
  }
  return saved(change);
}

std::uint64_t Replay::recomputed(std::span<const Run> runs) const {
  std::vector<std::uint64_t> change = change_;
  for (const Run& run : runs) {
    for (std::size_t i = 0; i + 1 < run.rows.size(); ++i) {
      remove(lifetimes_[run.rows[i]], Absence{run.done, run.again}, change);
    }
  }
  return saved(change);
}

}  // namespace plimsoll::analysis::whatif
