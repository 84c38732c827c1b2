// Forwards the recorder's ranges to the tool that reads NVTX.
#include "monitor/nvtx_ranges.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/per_thread.h"
#include "base/recorder_names.h"
#include "monitor/watch.h"
#include "nvtx/nvtx.h"
#include "plimsoll/monitor.h"
#include "plimsoll/recorder_c.h"
#include "sample/live_rows.h"
#include "sample/names.h"

namespace plimsoll {
namespace {

using nvtx::Nvtx;

struct Ranges {
  std::mutex mutex;  // guards everything but `nvtx`
  int users = 0;
  std::unordered_map<std::uint32_t, Nvtx::Text> names;  // of layers and regions, by id
  std::unordered_map<std::string, Nvtx::Text> texts;    // never freed: the tool may refer to them
  std::uint64_t step_range = 0;
  bool has_step = false;
  std::atomic<const Nvtx*> nvtx{nullptr};  // set once, before the first range
};
void begin_in_child();
Ranges& ranges() {
  static auto* all = [] {
    pthread_atfork(nullptr, nullptr, begin_in_child);
    return new Ranges;  // never destroyed: ranges may end until process exit
  }();
  return *all;
}

const Nvtx& tool() { return *ranges().nvtx.load(std::memory_order_acquire); }

// ---- ranges of a thread -----------------------------------------------------------------------

struct Open {
  std::uint8_t range;
  std::uint32_t value;
  friend bool operator==(const Open&, const Open&) = default;
};
// The open ranges of a thread, so that each end closes its own range even if others were missed.
struct ThreadRanges {
  static constexpr std::size_t kMost = 256;  // deeper ones are not shown
  std::size_t depth = 0;
  std::size_t deeper = 0;  // open ranges beyond kMost
  std::array<Open, kMost> open;

  static ThreadRanges& of_this_thread() {
    return base::PerThread<ThreadRanges, ThreadRanges>::get();
  }
};

// A child sends no ranges until it starts NVTX itself. A thread that does not exist there may have
// held the lock.
void begin_in_child() try {
  plimsoll_listen_to_ranges(nullptr);
  ::new (&ranges().mutex) std::mutex;
  ranges().users = 0;
  ranges().has_step = false;
  ThreadRanges& mine = ThreadRanges::of_this_thread();
  mine.depth = mine.deeper = 0;
} catch (...) {
  return;  // no memory: this thread starts without open ranges
}

// The caller must hold the lock.
Nvtx::Text kept(std::string text) {
  const auto [place, is_new] = ranges().texts.try_emplace(std::move(text));
  if (is_new) place->second = tool().keep(place->first.c_str());
  return place->second;
}

Nvtx::Text name_of(std::uint32_t id) {
  Ranges& all = ranges();
  const std::lock_guard lock(all.mutex);
  const auto found = all.names.find(id);
  if (found != all.names.end()) return found->second;
  std::size_t size_bytes = 0;
  const char* text = plimsoll_name_text(id, &size_bytes);
  return all.names[id] = kept({text, size_bytes});
}

Nvtx::Text phase_text(std::uint32_t phase) {
  static const auto kTexts = [] {
    std::array<Nvtx::Text, base::kPhaseNames.size()> texts;
    std::ranges::transform(base::kPhaseNames, texts.begin(), [](std::string_view name) {
      return tool().keep(std::string(name).c_str());
    });
    return texts;
  }();
  return kTexts[phase < kTexts.size() ? phase : 0];
}

Nvtx::Category category_of(std::uint8_t range) {
  if (range == PLIMSOLL_RANGE_PHASE) return Nvtx::kPhase;
  return range == PLIMSOLL_RANGE_LAYER ? Nvtx::kLayer : Nvtx::kRegion;
}

// ---- memory -----------------------------------------------------------------------------------

void count(const std::string& what, std::uint64_t bytes) {
  Nvtx::Text text;
  {
    const std::lock_guard lock(ranges().mutex);
    text = kept(what);
  }
  tool().mark(Nvtx::kMemory, text, bytes);
}

// Queries the recorder, which takes its locks and drains all rings. Never call it at the end of a
// range, which may come from an allocator's hook or one of autograd's threads.
std::set<std::string> count_recorded() {
  std::set<std::string> devices;
  for (const plimsoll_usage& device : monitor::recorded_usage()) {
    const std::string name = sample::device_name(device);
    count(name + " allocated bytes", device.live_bytes);
    devices.insert(name);
  }
  return devices;
}

void count_reported(const std::set<std::string>& recorded) {
  for (const DeviceMemory& device : monitor::ask_device_source()) {
    if (device.allocated_bytes && !recorded.contains(device.name))
      count(device.name + " allocated bytes", *device.allocated_bytes);
    if (device.reserved_bytes) count(device.name + " reserved bytes", *device.reserved_bytes);
  }
}

// ---- callbacks of the recorder ----------------------------------------------------------------

void begin_step(const std::string& name) {
  Ranges& all = ranges();
  const std::lock_guard lock(all.mutex);
  if (all.has_step) tool().end(all.step_range);
  all.step_range = tool().start(Nvtx::kStep, name.c_str());
  all.has_step = true;
}

void range_began(std::uint8_t range, std::uint32_t value) try {
  ThreadRanges& mine = ThreadRanges::of_this_thread();
  if (mine.depth == ThreadRanges::kMost) {
    ++mine.deeper;
    return;
  }
  const Nvtx::Text text = range == PLIMSOLL_RANGE_PHASE ? phase_text(value) : name_of(value);
  mine.open[mine.depth++] = {range, value};
  tool().push(category_of(range), text);
} catch (...) {
  return;  // no memory: not shown
}

void range_ended(std::uint8_t range, std::uint32_t value) try {
  ThreadRanges& mine = ThreadRanges::of_this_thread();
  if (mine.deeper > 0) {
    --mine.deeper;
    return;
  }
  const Open ended{range, value};
  std::size_t place = mine.depth;
  while (place > 0 && mine.open[place - 1] != ended) --place;
  if (place == 0) return;  // its begin was never reported
  for (; mine.depth >= place; --mine.depth) tool().pop();
} catch (...) {
  return;  // no memory: not shown
}

void step_ended(std::uint64_t number) try {
  begin_step("step " + std::to_string(number + 1));
  count_reported(count_recorded());
} catch (...) {
  return;  // no memory: not shown
}

constexpr plimsoll_range_listener kListener = {range_began, range_ended, step_ended};

}  // namespace

bool monitor::may_print_nvtx_failure() noexcept {
  static std::atomic<bool> is_printed{false};
  return !is_printed.exchange(true, std::memory_order_relaxed);
}

Status start_nvtx() {
  PLIMSOLL_TRY_ASSIGN(const Nvtx* nvtx, Nvtx::connect());
  Ranges& all = ranges();
  {
    const std::lock_guard lock(all.mutex);
    if (++all.users > 1) return {};
    all.nvtx.store(nvtx, std::memory_order_release);
  }
  begin_step("first step");
  plimsoll_listen_to_ranges(&kListener);
  return {};
}

void stop_nvtx() {
  Ranges& all = ranges();
  const std::lock_guard lock(all.mutex);
  if (all.users == 0) return;
  if (--all.users > 0) return;
  plimsoll_listen_to_ranges(nullptr);
  if (all.has_step) tool().end(all.step_range);
  all.has_step = false;
}

}  // namespace plimsoll
