#include "monitor/watch.h"

#include <pthread.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "plimsoll/last_failure_c.h"
#include "plimsoll/monitor.h"

namespace plimsoll {
namespace monitor {
namespace {

// The watch of this process. Any thread may start, stop or query it.
struct Watch {
  std::mutex mutex;
  plimsoll_recording* recording = nullptr;
  std::vector<plimsoll_recording*> lent;
  std::uint64_t number = 0;  // changes whenever a different recording is queried
  std::mutex source_mutex;
  // Shared, not copied: a source from Python can be copied and destroyed only under the GIL, whose
  // holder may be waiting for our lock.
  std::shared_ptr<const DeviceSource> source;

  // Null if there is no recording to query.
  plimsoll_recording* asked() const {
    if (recording != nullptr) return recording;
    return lent.empty() ? nullptr : lent.back();
  }
};

// Never destroyed: queries may come until process exit. Allocates nothing: without memory, stopping
// must work as well.
Watch& watch() noexcept {
  static_assert(std::is_nothrow_default_constructible_v<Watch>);
  alignas(Watch) static std::byte storage[sizeof(Watch)];
  static Watch* const kWatch = [] {
    Watch* const made = ::new (static_cast<void*>(storage)) Watch;
    // Registers the recorder's handlers first: prepare handlers run in reverse order, so the locks
    // are taken in the usual order, ours before the recorder's.
    plimsoll_recorder();
    // In a child the recording has ended, and threads that no longer exist may have held the locks.
    pthread_atfork([] { watch().mutex.lock(), watch().source_mutex.lock(); },
                   [] { watch().source_mutex.unlock(), watch().mutex.unlock(); },
                   [] {
                     watch().source_mutex.unlock(), watch().mutex.unlock();
                     watch().recording = nullptr;
                     watch().lent.clear();
                   });
    return made;
  }();
  return *kWatch;
}

}  // namespace

void lend_recording(plimsoll_recording* recording) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  w.lent.push_back(recording);
  if (w.asked() == recording) ++w.number;
}

void take_back_recording(plimsoll_recording* recording) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  if (w.asked() == recording) ++w.number;
  std::erase(w.lent, recording);
}

std::vector<DeviceMemory> ask_device_source() {
  std::shared_ptr<const DeviceSource> source;
  {
    const std::lock_guard lock(watch().source_mutex);
    source = watch().source;
  }
  return source != nullptr ? (*source)() : std::vector<DeviceMemory>();
}

LiveMemory live_memory(std::uint64_t number, std::uint64_t span) {
  LiveMemory held;
  held.reported = ask_device_source();
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  if (w.asked() == nullptr) return held;
  held.has_span = span != 0 && number == w.number;
  held.recorded.resize(256);
  held.recorded.resize(plimsoll_recording_usage(w.asked(), held.has_span ? span : 0,
                                                held.recorded.data(), held.recorded.size()));
  if (!held.has_span) return held;
  for (const plimsoll_usage& device : held.recorded) {
    plimsoll_peak& peak = held.peaks.emplace_back();
    if (plimsoll_recording_peak(w.asked(), span, device.device, &peak) == 0) peak = {};
  }
  return held;
}

std::vector<plimsoll_usage> recorded_usage() {
  std::vector<plimsoll_usage> recorded;
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  if (w.asked() == nullptr) return recorded;
  recorded.resize(256);
  recorded.resize(plimsoll_recording_usage(w.asked(), 0, recorded.data(), recorded.size()));
  return recorded;
}

std::int64_t last_step() {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  std::uint64_t step = 0;
  std::array<std::uint64_t, PLIMSOLL_ROLE_WORKSPACE + 1> then;
  std::array<std::uint64_t, PLIMSOLL_ROLE_WORKSPACE + 1> now;
  const bool has_step =
      w.asked() != nullptr &&
      plimsoll_recording_since_step(w.asked(), 0, &step, then.data(), now.data()) != 0;
  return has_step ? static_cast<std::int64_t>(step) : 0;
}

BegunSpan begin_span() {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  if (w.asked() == nullptr) return {};
  return {w.number, plimsoll_recording_begin_span(w.asked())};
}

void end_span(const BegunSpan& span) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  if (w.asked() != nullptr && span.watch == w.number && span.span != 0)
    plimsoll_recording_end_span(w.asked(), span.span);
}

void read_live_rows(std::vector<plimsoll_live>& rows) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  plimsoll_recording* const asked = w.asked();
  std::size_t count = plimsoll_recording_live(asked, rows.data(), rows.size());
  while (count > rows.size()) {  // the table may have grown meanwhile
    rows.resize(count + count / 8 + 64);
    count = plimsoll_recording_live(asked, rows.data(), rows.size());
  }
  rows.resize(count);
}

bool read_unused_rows(const plimsoll_use_point& since, std::vector<plimsoll_live>& rows) {
  Watch& w = watch();
  const std::lock_guard lock(w.mutex);
  for (;;) {
    const std::size_t count = plimsoll_recording_unused(w.asked(), since, rows.data(), rows.size());
    if (count == SIZE_MAX) return false;
    const bool is_complete = count <= rows.size();
    rows.resize(count);
    if (is_complete) return true;
  }
}

}  // namespace monitor

Status start_watching() {
  monitor::Watch& w = monitor::watch();
  const std::lock_guard lock(w.mutex);
  if (w.recording != nullptr) return {};
  plimsoll_recording_options options{};
  options.size_bytes = sizeof(options);
  options.sink = PLIMSOLL_SINK_NULL;
  const char* error = nullptr;
  w.recording = plimsoll_recording_start(&options, &error);
  if (w.recording == nullptr)
    return make_error(ErrorCode::kIo, error != nullptr ? error : "monitoring could not be started");
  ++w.number;
  return {};
}

void stop_watching() {
  plimsoll_recording* recording = nullptr;
  {
    const std::lock_guard lock(monitor::watch().mutex);
    recording = std::exchange(monitor::watch().recording, nullptr);
    if (recording != nullptr) ++monitor::watch().number;
  }
  if (recording != nullptr) plimsoll_recording_stop(recording, nullptr);
}

bool is_watching() {
  const std::lock_guard lock(monitor::watch().mutex);
  return monitor::watch().recording != nullptr;
}

void set_device_source(DeviceSource source) {
  std::shared_ptr<const DeviceSource> next;
  if (source) next = std::make_shared<const DeviceSource>(std::move(source));
  const std::lock_guard lock(monitor::watch().source_mutex);
  monitor::watch().source.swap(next);
}  // the previous source is destroyed after the lock is released

}  // namespace plimsoll
