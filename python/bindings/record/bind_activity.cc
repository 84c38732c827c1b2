// Writes the activity of threads as marks into the trace, for events that another recorder stores
// with only their time (torch's own history of its CUDA allocator). In the fallback, Python reports
// each operator; with the compiled adapter, a listener receives its ranges.
#include <nanobind/nanobind.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "bind.h"
#include "plimsoll/recorder_c.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// Each recording needs the complete activity; marks in another recording do not count.
std::atomic<std::uint32_t> g_recordings{0};

struct Reported {
  std::uint32_t recordings = 0;
  std::uint32_t layer = 0;
  std::uint32_t op = 0;
  std::uint8_t phase = 0;
};

Reported& reported() {
  thread_local Reported reported [[gnu::tls_model("initial-exec")]];
  const std::uint32_t recordings = g_recordings.load(std::memory_order_relaxed);
  if (reported.recordings != recordings) reported = {.recordings = recordings};
  return reported;
}

template <typename Number>
void emit(plimsoll_context* context, plimsoll_mark mark, Number& before, Number now) {
  if (before == now) return;
  before = now;
  recorder().mark(context, static_cast<std::uint8_t>(mark), now);
}

// Marks the context of this thread. An operator begins last and ends first, so that it is one span.
void mark_activity() {
  plimsoll_context* const context = recorder().context();
  Reported& before = reported();
  if (context->outer_op == 0) emit(context, PLIMSOLL_MARK_OPERATOR, before.op, 0u);
  emit(context, PLIMSOLL_MARK_LAYER, before.layer, context->layer);
  emit(context, PLIMSOLL_MARK_PHASE, before.phase, context->phase);
  emit(context, PLIMSOLL_MARK_OPERATOR, before.op, context->outer_op);
}

// ---- ranges -----------------------------------------------------------------------------------

// The open ranges of this thread, innermost last.
struct OpenRanges {
  static constexpr std::size_t kDeepest = 1024;  // ends may be missing

  std::size_t count = 0;
  std::array<std::uint32_t, kDeepest> values;
};
struct ThreadRanges {
  OpenRanges layers, phases;
};
// Thread-local memory is too small for them (src/base/per_thread.h).
thread_local ThreadRanges* t_ranges [[gnu::tls_model("initial-exec")]] = nullptr;

void free_ranges(void* ranges) {
  t_ranges = nullptr;
  delete static_cast<ThreadRanges*>(ranges);
}

// Returns null if there is no memory; the range is then not marked.
OpenRanges* open(std::uint8_t range) noexcept {
  if (t_ranges == nullptr) {
    static pthread_key_t key;
    static const bool kHasKey = pthread_key_create(&key, free_ranges) == 0;
    auto* const made = kHasKey ? new (std::nothrow) ThreadRanges : nullptr;
    if (made == nullptr) return nullptr;
    if (pthread_setspecific(key, made) != 0) {
      delete made;
      return nullptr;
    }
    t_ranges = made;
  }
  return range == PLIMSOLL_RANGE_LAYER ? &t_ranges->layers : &t_ranges->phases;
}

void report_innermost(std::uint8_t range, const OpenRanges& ranges) {
  const std::uint32_t now = ranges.count == 0 ? 0 : ranges.values[ranges.count - 1];
  plimsoll_context* const context = recorder().context();
  if (range == PLIMSOLL_RANGE_LAYER) {
    emit(context, PLIMSOLL_MARK_LAYER, reported().layer, now);
  } else {
    emit(context, PLIMSOLL_MARK_PHASE, reported().phase, static_cast<std::uint8_t>(now));
  }
}

void begin_range(std::uint8_t range, std::uint32_t value) {
  OpenRanges* const ranges = range == PLIMSOLL_RANGE_REGION ? nullptr : open(range);
  if (ranges == nullptr || ranges->count == OpenRanges::kDeepest) return;
  ranges->values[ranges->count++] = value;
  report_innermost(range, *ranges);
}

void end_range(std::uint8_t range, std::uint32_t value) {
  OpenRanges* const ranges = range == PLIMSOLL_RANGE_REGION ? nullptr : open(range);
  std::size_t place = ranges == nullptr ? 0 : ranges->count;
  while (place > 0 && ranges->values[place - 1] != value) --place;
  if (place == 0) return;
  std::uint32_t* const values = ranges->values.data();
  std::copy(values + place, values + ranges->count, values + place - 1);
  --ranges->count;
  report_innermost(range, *ranges);
}

void end_step(std::uint64_t) {}

constexpr plimsoll_range_listener kListener = {begin_range, end_range, end_step};

}  // namespace

void renew_activity() { g_recordings.fetch_add(1, std::memory_order_relaxed); }

void bind_activity(nb::module_& module) {
  module.def("mark_activity", &mark_activity, "Mark the new context of this thread.");
  module.def(
      "mark_ranges",
      [](bool is_wanted) { plimsoll_listen_to_ranges(is_wanted ? &kListener : nullptr); },
      nb::arg("is_wanted"), "Mark each layer and phase that the compiled adapter sees.");
}

}  // namespace plimsoll::python
