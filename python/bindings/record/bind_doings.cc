// What threads are doing, as marks in the trace: for events that somebody else records, who knows
// their time alone (torch's own history of its CUDA allocator). Python tells it where it sees each
// operator; where the compiled adapter does, its ranges are listened to.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "bind.h"
#include "plimsoll/recorder_c.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

const plimsoll_recorder_api& recorder() { return *plimsoll_recorder(); }

// Each recording must be told everything once: what was told in another one does not count.
std::atomic<std::uint32_t> g_recordings{0};

struct Told {
  std::uint32_t recordings = 0;
  std::uint32_t layer = 0;
  std::uint32_t op = 0;
  std::uint8_t phase = 0;
};

Told& told() {
  thread_local Told told;
  const std::uint32_t recordings = g_recordings.load(std::memory_order_relaxed);
  if (told.recordings != recordings) told = {.recordings = recordings};
  return told;
}

template <typename Number>
void tell(plimsoll_context* context, plimsoll_mark mark, Number& before, Number now) {
  if (before == now) return;
  before = now;
  recorder().mark(context, static_cast<std::uint8_t>(mark), now);
}

// The context of this thread. An operator begins last and ends first, so that it is one span.
void mark_doing() {
  plimsoll_context* const context = recorder().context();
  Told& before = told();
  if (context->outer_op == 0) tell(context, PLIMSOLL_MARK_OPERATOR, before.op, 0u);
  tell(context, PLIMSOLL_MARK_LAYER, before.layer, context->layer);
  tell(context, PLIMSOLL_MARK_PHASE, before.phase, context->phase);
  tell(context, PLIMSOLL_MARK_OPERATOR, before.op, context->outer_op);
}

// ---- ranges -----------------------------------------------------------------------------------

// The open ones of this thread, innermost last.
std::vector<std::uint32_t>& open(std::uint8_t range) {
  thread_local std::vector<std::uint32_t> layers, phases;
  return range == PLIMSOLL_RANGE_LAYER ? layers : phases;
}

void tell_innermost(std::uint8_t range) {
  const std::vector<std::uint32_t>& values = open(range);
  const std::uint32_t now = values.empty() ? 0 : values.back();
  plimsoll_context* const context = recorder().context();
  if (range == PLIMSOLL_RANGE_LAYER) {
    tell(context, PLIMSOLL_MARK_LAYER, told().layer, now);
  } else {
    tell(context, PLIMSOLL_MARK_PHASE, told().phase, static_cast<std::uint8_t>(now));
  }
}

constexpr std::size_t kDeepest = 4096;  // ends may be missing

void begin_range(std::uint8_t range, std::uint32_t value) {
  if (range == PLIMSOLL_RANGE_REGION || open(range).size() == kDeepest) return;
  open(range).push_back(value);
  tell_innermost(range);
}

void end_range(std::uint8_t range, std::uint32_t value) {
  if (range == PLIMSOLL_RANGE_REGION) return;
  std::vector<std::uint32_t>& values = open(range);
  const auto found = std::find(values.rbegin(), values.rend(), value);
  if (found == values.rend()) return;
  values.erase(std::next(found).base());
  tell_innermost(range);
}

void end_step(std::uint64_t) {}

constexpr plimsoll_range_listener kListener = {begin_range, end_range, end_step};

}  // namespace

void renew_doings() { g_recordings.fetch_add(1, std::memory_order_relaxed); }

void bind_doings(nb::module_& module) {
  module.def("mark_doing", &mark_doing, "Marks what this thread's context has become.");
  module.def(
      "mark_ranges",
      [](bool is_wanted) { plimsoll_listen_to_ranges(is_wanted ? &kListener : nullptr); },
      nb::arg("is_wanted"), "Marks each layer and phase that the compiled adapter sees.");
}

}  // namespace plimsoll::python
