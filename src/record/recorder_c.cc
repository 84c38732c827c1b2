// The C interface: the hooks, and the entry points for everything else. No function throws.
#include "plimsoll/recorder_c.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "plimsoll/last_failure_c.h"
#include "plimsoll/last_use_c.h"
#include "record/range_listeners.h"
#include "record/recorder.h"

struct plimsoll_recording {
  std::shared_ptr<plimsoll::record::Recording> recording;
};

namespace plimsoll::record {
namespace {

static_assert(sizeof(plimsoll_frame) == sizeof(format::Frame));

// Fills in the context of an event.
[[gnu::always_inline]] inline void fill(Event& event, const plimsoll_context& context, Kind kind,
                                        std::uint64_t ticks) noexcept {
  static_assert(offsetof(plimsoll_context, op_instance) + 4 - offsetof(plimsoll_context, layer) ==
                sizeof(Event) - offsetof(Event, layer));
  // A free has no site: without this, it takes 4 instructions more, of 44.
  const bool has_autograd = kind != Kind::kFree && kind != Kind::kFreeRequested;
  event.stamp = has_autograd ? make_stamp(ticks, kind, context.phase, context.autograd)
                             : make_stamp(ticks, kind, context.phase);
  std::memcpy(&event.layer, &context.layer, sizeof(Event) - offsetof(Event, layer));
}

// The slot for this thread's next event, with its time and context filled in. Null while nothing is
// recorded, without a context, or when the ring is full. Forced inline: with this many callers the
// compiler would emit a call, which costs a nanosecond per event.
[[gnu::always_inline]] inline Event* begin_event(plimsoll_context* context, Kind kind,
                                                 Ring::Need need) noexcept {
  Recorder& recorder = Recorder::made();
  if (recorder.hot.mode.load(std::memory_order_relaxed) != Mode::kOn) [[unlikely]] {
    if (!recorder.begin_in_child()) {
      recorder.pass_over(kind);
      return nullptr;
    }
  }
  if (context == nullptr) [[unlikely]]
    return nullptr;
  ThreadState& thread = *ThreadRegistry::of(context);
  Event* event = thread.ring.claim(need, has_details(kind) ? 2 : 1);
  if (event == nullptr) [[unlikely]] {
    if (!thread.is_listed) recorder.threads.count_lost();
    return nullptr;
  }
  fill(*event, *context, kind, read_ticks(recorder.hot.ticks));
  return event;
}

inline void end_event(plimsoll_context* context) noexcept {
  if (ThreadRegistry::of(context)->ring.publish()) [[unlikely]]
    Recorder::made().wake_drain();
}

inline void end_event(plimsoll_context* context, const EventDetails& details) noexcept {
  Ring& ring = ThreadRegistry::of(context)->ring;
  *ring.second() = slot_of(details);
  if (ring.publish(2)) [[unlikely]]
    Recorder::made().wake_drain();
}

plimsoll_context* context() { return &Recorder::made().threads.current()->context; }

int is_recording() {
  return Recorder::made().hot.mode.load(std::memory_order_relaxed) != Mode::kOff ? 1 : 0;
}

// The other fields of an allocation, a free, an adoption and a tag.
struct Fields {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint32_t tensor = 0;
};

template <Kind kKind>
inline void fill(Event& event, const Fields& fields) noexcept {
  event.address = fields.address;
  event.size = fields.size;
  if constexpr (kKind == Kind::kAdopt || kKind == Kind::kTag) event.op_instance = fields.tensor;
}

template <Kind kKind, Ring::Need kNeed>
[[gnu::noinline]] void record_slowly(plimsoll_context* context, std::uint64_t address,
                                     std::uint64_t size, std::uint32_t tensor) noexcept {
  Event* event = begin_event(context, kKind, kNeed);
  if (event == nullptr) return;
  fill<kKind>(*event, {address, size, tensor});
  end_event(context);
}

// The fast path of nearly all events: recording is on, the ring has space, and reading the time is
// one instruction. Null if it is not open.
[[gnu::always_inline]] inline Event* claim_quickly(plimsoll_context* context) noexcept {
  if (Recorder::made().hot.is_quick.load(std::memory_order_relaxed) && context != nullptr)
      [[likely]] {
    return ThreadRegistry::of(context)->ring.try_claim();
  }
  return nullptr;
}

// On the fast path it makes no call and so saves no registers: a third fewer instructions.
template <Kind kKind, Ring::Need kNeed>
[[gnu::always_inline]] inline void record(plimsoll_context* context,
                                          const Fields& fields) noexcept {
  Event* const event = claim_quickly(context);
  if (event == nullptr) [[unlikely]] {
    return record_slowly<kKind, kNeed>(context, fields.address, fields.size, fields.tensor);
  }
  fill(*event, *context, kKind, read_ticks(TickSource::kTsc));
  fill<kKind>(*event, fields);
  ThreadRegistry::of(context)->ring.publish_one();
}

Uses* uses() noexcept { return Recorder::made().hot.uses.load(std::memory_order_relaxed); }

// A free, or a request for one, with the last use of its memory.
[[gnu::noinline]] void record_last_use(plimsoll_context* context, Kind kind, uint8_t device,
                                       uint64_t address) noexcept {
  const format::EndUse use = uses()->freed(address);
  Event* event = claim_quickly(context);
  const bool is_quick = event != nullptr;
  if (is_quick) [[likely]] {
    fill(*event, *context, kind, read_ticks(TickSource::kTsc));
  } else {
    event = begin_event(context, kind, Ring::Need::kOther);
    if (event == nullptr) return;
  }
  event->address = address;
  event->size = make_size(0, device);
  event->set_use(use);
  is_quick ? ThreadRegistry::of(context)->ring.publish_one() : end_event(context);
}

// What an operator allocates is in use until it ends, as what it uses.
[[gnu::noinline]] void begin_uses(plimsoll_context* context, uint64_t address) noexcept {
  Uses& table = *uses();
  table.allocated(address);
  if (context == nullptr || !Recorder::made().is_observing_uses()) return;
  ThreadState& thread = *ThreadRegistry::of(context);
  if (context->op_instance == 0 && !thread.uses.is_in_region()) return;
  thread.uses.made(table, thread.number + 1, address);
}

void alloc(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes) {
  record<Kind::kAlloc, Ring::Need::kAlloc>(context, {address, make_size(size_bytes, device)});
  if (uses() != nullptr) [[unlikely]]
    begin_uses(context, address);
}

void free(plimsoll_context* context, uint8_t device, uint64_t address) {
  if (uses() != nullptr) [[unlikely]]
    return record_last_use(context, Kind::kFree, device, address);
  record<Kind::kFree, Ring::Need::kOther>(context, {address, make_size(0, device)});
}

void adopt(plimsoll_context* context, uint8_t device, uint64_t address, uint64_t size_bytes,
           uint32_t tensor) {
  record<Kind::kAdopt, Ring::Need::kAlloc>(context,
                                           {address, make_size(size_bytes, device), tensor});
  if (Uses* const table = uses()) [[unlikely]]
    table->adopted(address);
}

void tag(plimsoll_context* context, uint8_t device, uint64_t address, uint32_t tensor) {
  record<Kind::kTag, Ring::Need::kOther>(context, {address, make_size(0, device), tensor});
}

void set_phase(plimsoll_context* context, uint8_t phase) {
  Event* event = begin_event(context, Kind::kSetPhase, Ring::Need::kOther);
  if (event == nullptr) return;
  event->stamp = (event->stamp & ~std::uint64_t{15}) | std::min<std::uint64_t>(phase, 15);
  event->address = 0;
  event->size = 0;
  end_event(context);
}

void report_listener(const plimsoll_range_listener& listener, uint8_t mark, uint64_t value) {
  switch (mark) {
    case PLIMSOLL_MARK_STEP:
      return listener.step(value);
    case PLIMSOLL_MARK_REGION_BEGIN:
      return listener.begin(PLIMSOLL_RANGE_REGION, static_cast<uint32_t>(value));
    case PLIMSOLL_MARK_REGION_END:
      return listener.end(PLIMSOLL_RANGE_REGION, static_cast<uint32_t>(value));
    case PLIMSOLL_MARK_BACKWARD_BEGIN:
      return listener.begin(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_BACKWARD);
    case PLIMSOLL_MARK_BACKWARD_END:
      return listener.end(PLIMSOLL_RANGE_PHASE, PLIMSOLL_PHASE_BACKWARD);
    default:
      return;
  }
}

void device_figure(plimsoll_context* context, uint8_t device, uint8_t figure, uint64_t value,
                   uint32_t pid, uint32_t name) {
  Event* event = begin_event(context, Kind::kDeviceFigure, Ring::Need::kOther);
  if (event == nullptr) return;
  event->address = value;
  event->size = make_size(figure, device);
  event->layer = name;
  event->op_instance = pid;
  end_event(context);
}

void after_step(plimsoll_context* context, uint8_t mark) {
  ReadingSteps& steps = Recorder::made().reading_steps;
  const bool is_call = mark == PLIMSOLL_MARK_CALL_END;
  if (!(is_call ? steps.is_due_after_call() : steps.is_due_after_step())) return;
  read_process([&](plimsoll_figure figure, std::uint64_t bytes) {
    device_figure(context, Definitions::kCpu, static_cast<std::uint8_t>(figure), bytes, 0, 0);
  });
}

void mark(plimsoll_context* context, uint8_t mark, uint64_t value) {
  Event* event = begin_event(context, Kind::kMark, Ring::Need::kOther);
  if (event != nullptr) {
    event->address = value;
    event->size = make_size(mark, 0);
    end_event(context);
    if (mark == PLIMSOLL_MARK_STEP || mark == PLIMSOLL_MARK_CALL_END) after_step(context, mark);
    if (mark == PLIMSOLL_MARK_OWN_STEPS) Recorder::made().reading_steps.begin();
  } else if (is_recording() == 0) {
    return;
  }
  // Notify even when the ring is full so begin/end stay paired.
  const auto* listener = RangeListeners::called();
  if (listener != nullptr) report_listener(*listener, mark, value);
}

EventDetails details_of(const plimsoll_block& block) {
  return {.requested_bytes = block.requested_bytes, .stream = block.stream, .pool = block.pool};
}

void alloc_block(plimsoll_context* context, uint8_t device, const plimsoll_block* block) {
  Event* event = begin_event(context, Kind::kAllocBlock, Ring::Need::kAlloc);
  if (event == nullptr) return;
  event->address = block->address;
  event->size = make_size(block->size_bytes, device);
  end_event(context, details_of(*block));
  if (uses() != nullptr) begin_uses(context, block->address);
}

void adopt_block(plimsoll_context* context, uint8_t device, const plimsoll_block* block,
                 uint32_t tensor) {
  Event* event = begin_event(context, Kind::kAdoptBlock, Ring::Need::kAlloc);
  if (event == nullptr) return;
  event->address = block->address;
  event->size = make_size(block->size_bytes, device);
  event->op_instance = tensor;
  end_event(context, details_of(*block));
  if (Uses* const table = uses()) table->adopted(block->address);
}

void free_requested(plimsoll_context* context, uint8_t device, uint64_t address) {
  if (uses() != nullptr) [[unlikely]]
    return record_last_use(context, Kind::kFreeRequested, device, address);
  Event* event = begin_event(context, Kind::kFreeRequested, Ring::Need::kOther);
  if (event == nullptr) return;
  event->address = address;
  event->size = make_size(0, device);
  end_event(context);
}

void segment(plimsoll_context* context, uint8_t device, uint8_t action, uint64_t address,
             uint64_t size_bytes, uint64_t stream, uint32_t pool) {
  Event* event = begin_event(context, Kind::kSegment, Ring::Need::kOther);
  if (event == nullptr) return;
  event->address = address;
  event->size = make_size(size_bytes, device);
  end_event(context, {.stream = stream, .pool = pool, .action = action});
}

void out_of_memory(plimsoll_context* context, uint8_t device, const plimsoll_block* request,
                   uint64_t device_free_bytes, uint64_t limit_bytes, uint64_t device_total_bytes) {
  Event* event = begin_event(context, Kind::kOutOfMemory, Ring::Need::kOther);
  if (event == nullptr) return;
  event->address = device_free_bytes;
  event->size = make_size(request->requested_bytes, device);
  EventDetails details = details_of(*request);
  details.limit_bytes = limit_bytes;
  details.device_total_bytes = device_total_bytes;
  end_event(context, details);
  Recorder::made().want_holders(PLIMSOLL_HOLDERS_OF_GROWTH);
}

std::span<const format::Frame> frames_of(const plimsoll_frame* frames, size_t count) {
  if (frames == nullptr) return {};
  return {reinterpret_cast<const format::Frame*>(frames), count};
}

uint32_t name(const char* text, size_t size_bytes) {
  if (text == nullptr) return 0;
  return Recorder::made().definitions.name({text, size_bytes});
}

uint32_t stack(const plimsoll_frame* frames, size_t count) {
  return Recorder::made().definitions.stack(frames_of(frames, count));
}

uint32_t reserve_stack() { return Recorder::made().definitions.reserve_stack(); }

void define_stack(uint32_t stack, const plimsoll_frame* frames, size_t count) {
  Recorder::made().definitions.define_stack(stack, frames_of(frames, count));
}

uint32_t tensor(uint8_t role, uint32_t name, uint32_t dtype, uint32_t shape) {
  if (role > PLIMSOLL_ROLE_ACTIVATION) role = PLIMSOLL_ROLE_KNOWN;
  return Recorder::made().definitions.tensor({role, name, dtype, shape});
}

uint8_t device(uint8_t device_type, int32_t ordinal) {
  return Recorder::made().definitions.device({device_type, ordinal});
}

void settle() { Recorder::made().settle(); }

void setting(uint32_t name, uint8_t type, uint64_t value) {
  Recorder::made().definitions.setting({name, type, value});
}

void notice(uint8_t notice, uint8_t device, uint64_t count, uint32_t text) {
  Recorder::made().definitions.notice({notice, device, count, text});
}

void function(uint32_t file, uint32_t name, uint32_t first_line) {
  Recorder::made().definitions.function({file, name, first_line});
}

void module(uint32_t path, uint32_t type, uint64_t parameter_bytes, uint8_t state) {
  Recorder::made().definitions.module({path, type, parameter_bytes, state});
}

void observe_uses(plimsoll_context* context, int is_on) {
  if (!Recorder::made().observe_uses(is_on != 0)) return;
  mark(context, PLIMSOLL_MARK_USES, is_on != 0 ? 1 : 0);
}

void use(plimsoll_context* context, const uint64_t* addresses, size_t count) {
  Uses* const table = uses();
  if (table == nullptr || context == nullptr) return;
  ThreadState& thread = *ThreadRegistry::of(context);
  thread.uses.use(*table, thread.number + 1, addresses, count);
}

void end_uses(plimsoll_context* context) {
  const Uses* const table = uses();
  if (table == nullptr || context == nullptr) return;
  ThreadState& thread = *ThreadRegistry::of(context);
  thread.uses.end(*table, thread.number + 1);
}

void escape(uint64_t address) {
  if (Uses* const table = uses()) table->escape(address);
}

uint64_t use_clock() {
  const Uses* const table = uses();
  return table != nullptr ? table->clock() : 0;
}

// Counted without a recording, too, so that begin and end stay paired.
void use_region(plimsoll_context* context, int is_begin) {
  if (context == nullptr) return;
  RunningUses& uses = ThreadRegistry::of(context)->uses;
  is_begin != 0 ? uses.begin_region() : uses.end_region();
}

void escape_uses(plimsoll_context* context) {
  if (uses() != nullptr && context != nullptr) ThreadRegistry::of(context)->uses.escape_at_end();
}

void holders(plimsoll_context* /*context*/, const plimsoll_holders* found) {
  if (found != nullptr) Recorder::made().holders(*found);
}

int wants_holders() { return Recorder::made().wants_holders(); }

constexpr plimsoll_recorder_api kApi = {
    PLIMSOLL_RECORDER_ABI,
    sizeof(plimsoll_recorder_api),
    context,
    is_recording,
    alloc,
    free,
    adopt,
    tag,
    set_phase,
    mark,
    name,
    stack,
    reserve_stack,
    define_stack,
    tensor,
    device,
    alloc_block,
    adopt_block,
    free_requested,
    free,  // free_completed: without an earlier free_requested, it counts as both
    segment,
    out_of_memory,
    RangeListeners::address(),
    settle,
    device_figure,
    setting,
    notice,
    function,
    module,
    observe_uses,
    use,
    end_uses,
    escape,
    use_clock,
    use_region,
    escape_uses,
    holders,
    wants_holders,
};

}  // namespace
}  // namespace plimsoll::record

using plimsoll::record::Recorder;

const plimsoll_recorder_api* plimsoll_recorder() {
  Recorder::get();
  return &plimsoll::record::kApi;
}

plimsoll_recording* plimsoll_recording_start(const plimsoll_recording_options* options,
                                             const char** error) {
  const char* ignored = nullptr;
  if (error == nullptr) error = &ignored;
  *error = nullptr;
  if (options == nullptr || options->size_bytes == 0) {
    *error = "A recording needs its options, with their size in size_bytes.";
    return nullptr;
  }
  plimsoll_recording_options known{};
  std::memcpy(&known, options, std::min<std::size_t>(options->size_bytes, sizeof known));
  std::unique_ptr<plimsoll_recording> handle(new (std::nothrow) plimsoll_recording);
  if (handle == nullptr) {
    *error = "Not enough memory for a recording.";
    return nullptr;
  }
  handle->recording = Recorder::get().start(known, error);
  return handle->recording != nullptr ? handle.release() : nullptr;
}

const char* plimsoll_recording_path(const plimsoll_recording* recording) {
  return recording != nullptr ? recording->recording->path() : "";
}

void plimsoll_recording_read_process(plimsoll_recording* recording) {
  if (recording != nullptr) Recorder::get().read_process_now(*recording->recording);
}

void plimsoll_recording_flush(plimsoll_recording* recording) {
  if (recording != nullptr) Recorder::get().flush(*recording->recording);
}

void plimsoll_flush() { Recorder::get().flush_all(); }

uint64_t plimsoll_holder_walks(int is_wanted) {
  Recorder& recorder = Recorder::get();
  if (is_wanted != 0) recorder.want_holders(PLIMSOLL_HOLDERS_NOW);
  return recorder.holder_walks();
}

int plimsoll_recording_attach(plimsoll_recording* recording, const char* format, const void* data,
                              size_t size_bytes) {
  if (recording == nullptr) return ECANCELED;
  if (format == nullptr || (data == nullptr && size_bytes > 0)) return EINVAL;
  return Recorder::get().add_attachment(*recording->recording, format,
                                        {static_cast<const std::byte*>(data), size_bytes});
}

void plimsoll_recording_get_state(plimsoll_recording* recording, plimsoll_recording_state* state) {
  if (state == nullptr) return;
  *state = {};
  if (recording != nullptr) Recorder::get().get_state(*recording->recording, *state);
}

void plimsoll_recording_stop(plimsoll_recording* recording, plimsoll_recording_state* state) {
  plimsoll_recording_state ignored{};
  if (state == nullptr) state = &ignored;
  *state = {};
  if (recording == nullptr) return;
  const std::unique_ptr<plimsoll_recording> handle(recording);
  Recorder::get().stop(*handle->recording, *state);
}

void* plimsoll_recording_take(plimsoll_recording* recording, plimsoll_recording_state* state,
                              size_t* size_bytes) {
  plimsoll_recording_state ignored_state{};
  std::size_t ignored_size = 0;
  if (state == nullptr) state = &ignored_state;
  if (size_bytes == nullptr) size_bytes = &ignored_size;
  *state = {};
  *size_bytes = 0;
  if (recording == nullptr) return nullptr;
  const std::unique_ptr<plimsoll_recording> handle(recording);
  Recorder::get().stop(*handle->recording, *state);
  return Recorder::get().copy(*handle->recording, *size_bytes);
}

void* plimsoll_recording_copy(plimsoll_recording* recording, size_t* size_bytes) {
  size_t ignored = 0;
  if (size_bytes == nullptr) size_bytes = &ignored;
  *size_bytes = 0;
  if (recording == nullptr) return nullptr;
  return Recorder::get().copy(*recording->recording, *size_bytes);
}

uint64_t plimsoll_recording_peak_bytes(plimsoll_recording* recording, int reset) {
  return recording != nullptr ? Recorder::get().peak_bytes(*recording->recording, reset) : 0;
}

size_t plimsoll_recording_live(plimsoll_recording* recording, plimsoll_live* rows,
                               size_t capacity) {
  if (recording == nullptr) return 0;
  if (rows == nullptr) capacity = 0;
  return Recorder::get().live(*recording->recording, {rows, capacity});
}

uint64_t plimsoll_recording_begin_span(plimsoll_recording* recording) {
  return recording != nullptr ? Recorder::get().begin_span(*recording->recording) : 0;
}

size_t plimsoll_recording_usage(plimsoll_recording* recording, uint64_t span, plimsoll_usage* rows,
                                size_t capacity) {
  if (recording == nullptr) return 0;
  if (rows == nullptr) capacity = 0;
  return Recorder::get().usage(*recording->recording, span, {rows, capacity});
}

int plimsoll_recording_peak(plimsoll_recording* recording, uint64_t span, uint8_t device,
                            plimsoll_peak* peak) {
  if (recording == nullptr || peak == nullptr) return 0;
  return Recorder::get().peak(*recording->recording, span, device, *peak) ? 1 : 0;
}

void plimsoll_recording_end_span(plimsoll_recording* recording, uint64_t span) {
  if (recording != nullptr) Recorder::get().end_span(*recording->recording, span);
}

plimsoll_use_point plimsoll_use_point_now(void) { return Recorder::get().use_point(); }

size_t plimsoll_recording_unused(plimsoll_recording* recording, plimsoll_use_point since,
                                 plimsoll_live* rows, size_t capacity) {
  if (recording == nullptr) return SIZE_MAX;
  if (rows == nullptr) capacity = 0;
  return Recorder::get().unused(*recording->recording, since, {rows, capacity});
}

size_t plimsoll_recording_pins(plimsoll_recording* recording, uint8_t device,
                               plimsoll_stranded* sums, plimsoll_pin* rows, size_t capacity) {
  plimsoll_stranded ignored{};
  if (sums == nullptr) sums = &ignored;
  *sums = {};
  if (recording == nullptr) return 0;
  if (rows == nullptr) capacity = 0;
  return Recorder::get().pins(*recording->recording, device, *sums, {rows, capacity});
}

int plimsoll_recording_since_step(plimsoll_recording* recording, uint8_t device, uint64_t* step,
                                  uint64_t then[7], uint64_t now[7]) {
  if (recording == nullptr || step == nullptr || then == nullptr || now == nullptr) return 0;
  plimsoll::record::RoleBytes before{}, after{};
  if (!Recorder::get().since_step(*recording->recording, device, *step, before, after)) return 0;
  std::copy(before.begin(), before.end(), then);
  std::copy(after.begin(), after.end(), now);
  return 1;
}

size_t plimsoll_stack_frames(uint32_t stack, plimsoll_frame* frames, size_t capacity) {
  if (frames == nullptr) capacity = 0;
  return Recorder::get().definitions.copy_frames(
      stack, {reinterpret_cast<plimsoll::format::Frame*>(frames), capacity});
}

void plimsoll_listen_to_ranges(const plimsoll_range_listener* listener) {
  plimsoll::record::RangeListeners::get().set_program(listener);
}

const char* plimsoll_name_text(uint32_t name, size_t* size_bytes) {
  const std::string_view text = Recorder::get().definitions.text(name);
  if (size_bytes != nullptr) *size_bytes = text.size();
  return text.empty() ? "" : text.data();
}
