// Merges the events of many rings by time. A source is the events of one ring, which are in order
// already. In a run of events from one source, each costs a single comparison with the next source.
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

// Calls `apply(event, details, ticks, state)` for every event up to the horizon, and frees its
// slots. `details` is the slot after the event, which has its details if there are any. Events with
// equal ticks keep the order of the sources. If `apply` throws, the events passed to it may or may
// not have been removed from the rings.
template <typename Apply>
void merge(std::vector<Source>& sources, std::uint64_t horizon, Apply&& apply) {
  constexpr std::uint64_t kReleaseEvery = 4096;
  const auto is_later = [](const Source& a, const Source& b) { return a.ticks > b.ticks; };
  // Sets the source's time to that of its next event. Returns whether there is one up to the
  // horizon.
  const auto peek = [horizon](Source& source) {
    if (source.at == source.end) return false;
    source.ticks = full_ticks(source.state->ring.at(source.at).ticks(), horizon);
    return source.ticks <= horizon;
  };
  std::erase_if(sources, [&](Source& source) { return !peek(source); });
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
      has_more = peek(source);
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
