// Events of many rings in the order of their times. Each source is one ring's events, which are in
// order already; a run of one source costs nothing but the comparison with the next best.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "record/hot/thread_registry.h"

namespace plimsoll::record {

struct Source {
  ThreadState* state = nullptr;
  std::uint64_t at = 0;  // position of the next event
  std::uint64_t end = 0;
  std::uint64_t ticks = 0;  // of the next event
};

// Tells `apply(event, details, ticks, state)` every event up to the horizon, and gives their slots
// back. `details` is the slot behind the event, if the event has any.
// Within one tick the order is that of the sources. `apply` may throw: what it was told is gone
// from the rings or not.
template <typename Apply>
void merge(std::vector<Source>& sources, std::uint64_t horizon, Apply&& apply) {
  constexpr std::uint64_t kReleaseEvery = 4096;
  const auto is_later = [](const Source& a, const Source& b) { return a.ticks > b.ticks; };
  // Whether there is an event to tell; if so, its time stands in the source.
  const auto look = [horizon](Source& source) {
    if (source.at == source.end) return false;
    source.ticks = full_ticks(source.state->ring.at(source.at).ticks(), horizon);
    return source.ticks <= horizon;
  };
  std::erase_if(sources, [&](Source& source) { return !look(source); });
  std::make_heap(sources.begin(), sources.end(), is_later);
  while (!sources.empty()) {
    std::pop_heap(sources.begin(), sources.end(), is_later);
    Source& source = sources.back();
    const bool is_last = sources.size() == 1;
    const std::uint64_t next_best = is_last ? horizon : sources.front().ticks;
    Ring& ring = source.state->ring;
    bool has_more = true;
    do {
      const Event& event = ring.at(source.at);
      apply(event, ring.at(source.at + 1), source.ticks, *source.state);
      const std::uint64_t slots = event.slots();
      source.at += slots;
      if (source.at % kReleaseEvery < slots) ring.release(source.at);
      has_more = look(source);
    } while (has_more && source.ticks <= next_best);
    if (has_more) {
      std::push_heap(sources.begin(), sources.end(), is_later);
    } else {
      ring.release(source.at);
      sources.pop_back();
    }
  }
}

}  // namespace plimsoll::record
