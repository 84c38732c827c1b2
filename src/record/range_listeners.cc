#include "record/range_listeners.h"

#include <new>
#include <type_traits>

namespace plimsoll::record {
namespace {

const plimsoll_range_listener* g_program = nullptr;  // atomic

const plimsoll_range_listener* program() noexcept {
  return __atomic_load_n(&g_program, __ATOMIC_ACQUIRE);
}

// Marks a call of a layer. An autograd node is also a range of the layer that built it, but it runs
// as an operator and is not a call of the layer.
void mark_call(std::uint8_t mark, std::uint8_t range, std::uint32_t layer) noexcept {
  if (range != PLIMSOLL_RANGE_LAYER) return;
  const plimsoll_recorder_api& recorder = *plimsoll_recorder();
  plimsoll_context* const context = recorder.context();
  if (context->outer_op == 0) recorder.mark(context, mark, layer);
}

constexpr plimsoll_range_listener kMarking = {[](std::uint8_t range, std::uint32_t value) {
                                                mark_call(PLIMSOLL_MARK_LAYER_BEGIN, range, value);
                                                if (const auto* listener = program())
                                                  listener->begin(range, value);
                                              },
                                              [](std::uint8_t range, std::uint32_t value) {
                                                mark_call(PLIMSOLL_MARK_LAYER_END, range, value);
                                                if (const auto* listener = program())
                                                  listener->end(range, value);
                                              },
                                              [](std::uint64_t number) {
                                                if (const auto* listener = program())
                                                  listener->step(number);
                                              }};

}  // namespace

const plimsoll_range_listener* RangeListeners::g_called = nullptr;

RangeListeners& RangeListeners::get() noexcept {
  static_assert(std::is_trivially_destructible_v<RangeListeners>);
  static constinit RangeListeners listeners;
  return listeners;
}

void RangeListeners::publish() noexcept {
  // Pairs with the acquire of the hooks: they see the initialized listener.
  __atomic_store_n(&g_called, marking_recordings_ > 0 ? &kMarking : program(), __ATOMIC_RELEASE);
}

void RangeListeners::set_program(const plimsoll_range_listener* listener) noexcept {
  const std::lock_guard lock(mutex_);
  __atomic_store_n(&g_program, listener, __ATOMIC_RELEASE);
  publish();
}

void RangeListeners::set_marking_recordings(std::uint64_t count) noexcept {
  const std::lock_guard lock(mutex_);
  marking_recordings_ = count;
  publish();
}

void RangeListeners::begin_in_child(std::uint64_t marking_recordings) noexcept {
  ::new (static_cast<void*>(&mutex_)) std::mutex;
  set_marking_recordings(marking_recordings);
}

}  // namespace plimsoll::record
