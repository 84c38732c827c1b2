#include "record/recorder.h"
#include "base/per_thread.h"
#include "record/ledger/pins.h"
#include "record/range_listeners.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace plimsoll::record {
namespace {

constexpr std::int64_t kDrainPeriodNs = 20'000'000;
constexpr std::int64_t kWritePeriodNs = 1'000'000'000;  // unless it is woken
constexpr unsigned kSweepEvery = 8;                     // periods

constexpr const char* kNoMemory = "Not enough memory for a recording.";

const char* reason(int error) noexcept {
  return error == ENXIO ? "this pipe has no reader" : std::strerror(error);
}

// Returns a message for the caller, valid until this thread's next one.
const char* sentence(const char* what, const char* path, int error) noexcept try {
  struct Text {
    char bytes[512];
  };
  Text& text = base::PerThread<Text, Text>::get();
  std::snprintf(text.bytes, sizeof text.bytes, "%s '%s': %s.", what, path, reason(error));
  return text.bytes;
} catch (const std::bad_alloc&) {
  return kNoMemory;
}

Ended as_ended(const LiveRow& row) {
  return {.serial = row.serial,
          .size_bytes = row.size_bytes,
          .requested_bytes = row.requested_bytes,
          .site = row.site,
          .tensor = row.tensor,
          .device = row.device,
          .is_adopted = row.is_adopted};
}

RoleBytes roles_of(const UseBytes& uses) {
  RoleBytes roles{};
  for (std::size_t use = 0; use < uses.size(); ++use) {
    roles[use < roles.size() ? use : std::size_t{PLIMSOLL_ROLE_KNOWN}] += uses[use];
  }
  return roles;
}

}  // namespace

alignas(Recorder) unsigned char Recorder::g_storage[sizeof(Recorder)];

Recorder& Recorder::get() noexcept {
  static Recorder* const kRecorder = ::new (static_cast<void*>(g_storage)) Recorder;
  return *kRecorder;
}

Recorder::Recorder() noexcept : clock_(hot.ticks = best_tick_source()) { install_handlers(); }

std::int64_t Recorder::now_ns() noexcept {
  clock_.calibrate();
  return clock_.to_ns(read_ticks(hot.ticks));
}

// ---- the drain --------------------------------------------------------------------------------

void Recorder::drain() noexcept {
  if (is_broken_) return;
  try {
    drain_or_throw();
  } catch (...) {
    break_off();
  }
}

// The horizon is taken before the rings are read. Every cause of an event before the horizon was in
// its ring before that event's time was taken, so it is seen now. A free therefore comes before the
// allocation that reuses its memory. An event whose thread was interrupted between taking the time
// and publishing may come late, but nothing can depend on it yet.
void Recorder::drain_or_throw() {
  clock_.calibrate();
  const std::uint64_t horizon = read_ticks(hot.ticks);
  horizon_.store(horizon, std::memory_order_seq_cst);  // also a fence: the rings are read only
                                                       // after it
  list_sources();
  // Every id in the listed events was defined earlier, so it is in the tables now.
  definitions.copy_roles(ledger_.roles());
  for (const auto& recording : recordings_) recording->write_definitions(definitions);
  const Definitions::Beyond beyond = definitions.beyond();
  merge(sources_, horizon,
        [&](const Event& event, const Event& slot, std::uint64_t ticks, ThreadState& state) {
          if (ticks < since_ticks_) return;
          if (beyond.name != 0 || beyond.tensor != 0) count_if_beyond(event, beyond);
          if (state.op_log == nullptr) state.op_log = new OpLog;
          const Origin origin{clock_.to_ns(ticks), state.number, state.op_log};
          ledger_.apply(event, slot, origin, receivers_);
        });
  if (ledger_.take_growth()) want_holders(PLIMSOLL_HOLDERS_OF_GROWTH);
  report_dropped(clock_.to_ns(horizon));
  report_refused();
  report_unrecorded_children();
}

void Recorder::count_if_beyond(const Event& event, const Definitions::Beyond& beyond) noexcept {
  const Kind kind = event.kind();
  const bool has_site =
      kind == Kind::kAlloc || kind == Kind::kAllocBlock || kind == Kind::kOutOfMemory;
  const bool has_tensor = kind == Kind::kTag || kind == Kind::kAdopt || kind == Kind::kAdoptBlock;
  const bool has_name = kind == Kind::kMark && (event.size_bytes() == PLIMSOLL_MARK_REGION_BEGIN ||
                                                event.size_bytes() == PLIMSOLL_MARK_LAYER_BEGIN);
  const auto is_name = [&](std::uint64_t id) { return id != 0 && id == beyond.name; };
  if ((has_name && is_name(event.address)) ||
      (has_site && (is_name(event.layer) || is_name(event.outer_op) || is_name(event.inner_op) ||
                    (event.stack != 0 && event.stack == beyond.stack))) ||
      (has_tensor && definitions.is_beyond(event.op_instance))) {
    ++refused_events_;
  }
}

// Called in every drain including a recording's last, so that the count is in its file.
void Recorder::report_refused() noexcept {
  const std::uint64_t refused = refused_events_ + ledger_.sites().refused() - refused_before_;
  if (refused == refused_reported_) return;
  refused_reported_ = refused;
  definitions.notice({PLIMSOLL_NOTICE_NAMES_REFUSED, 0, refused, 0});
  for (const auto& recording : recordings_) recording->write_definitions(definitions);
}

void Recorder::report_unrecorded_children() noexcept {
  const std::uint64_t count = children_.count() - children_before_;
  if (count == children_reported_) return;
  children_reported_ = count;
  definitions.notice({PLIMSOLL_NOTICE_CHILDREN_UNRECORDED, 0, count, 0});
  for (const auto& recording : recordings_) recording->write_definitions(definitions);
}

void Recorder::list_sources() {
  listed_.clear();
  sources_.clear();
  threads.list(listed_);
  for (ThreadState* state : listed_) {
    const std::uint64_t tail = state->ring.tail();
    const std::uint64_t head = state->ring.head();
    if (head != tail) sources_.push_back({state, tail, head, 0});
  }
}

void Recorder::report_dropped(std::int64_t time_ns) {
  for (ThreadState* state : listed_) {
    const std::uint64_t dropped = state->ring.dropped();
    if (dropped == state->dropped_reported) continue;
    const format::Dropped reported{time_ns, state->number, dropped - state->dropped_reported};
    state->dropped_reported = dropped;
    for (EventReceiver* receiver : receivers_) receiver->on_dropped(reported);
  }
  const std::uint64_t lost = threads.lost();
  if (lost == lost_reported_) return;
  const format::Dropped reported{time_ns, 0, lost - lost_reported_};  // the threads are unknown
  lost_reported_ = lost;
  for (EventReceiver* receiver : receivers_) receiver->on_dropped(reported);
}

// For the first recording after a pause: the rings may contain events of hooks that were running
// when the last recording stopped.
void Recorder::discard_events() {
  list_sources();
  since_ticks_ = read_ticks(hot.ticks);
  for (ThreadState* state : listed_) {
    state->ring.release(state->ring.head());
    state->dropped_reported = state->ring.dropped();
  }
  lost_reported_ = threads.lost();
  refused_events_ = refused_reported_ = 0;
  refused_before_ = ledger_.sites().refused();
  children_reported_ = 0;
  children_before_ = children_.count();
  ledger_.forget_live();
  is_broken_ = false;
}

void Recorder::break_off() noexcept {
  is_broken_ = true;
  hot.set_mode(Mode::kOff);
  for (const auto& recording : recordings_) recording->fail(ENOMEM);
}

void Recorder::drain_until_stopped() noexcept {
  unsigned periods = 0;
  while (drainer_.waker().sleep(kDrainPeriodNs)) {
    bool has_blocks = false;
    {
      const std::lock_guard lock(state_);
      drain();
      if (++periods % kSweepEvery == 0) threads.sweep();
      const std::int64_t time_ns = now_ns();
      for (const auto& recording : recordings_) {
        recording->seal(Recording::Due::kOld, time_ns);
        has_blocks = has_blocks || recording->has_blocks();
      }
    }
    if (has_blocks) writer_.waker().wake();
  }
}

void Recorder::write_until_stopped() noexcept {
  Recordings recordings;
  while (writer_.waker().sleep(kWritePeriodNs)) {
    try {
      const std::lock_guard lock(state_);
      recordings = recordings_;
    } catch (...) {
      continue;  // if memory runs out, the blocks wait for the next period
    }
    for (const auto& recording : recordings) recording->write_out(state_, Recording::Due::kOld);
    recordings.clear();
  }
}

bool Recorder::start_workers() noexcept {
  constexpr auto kDrain = [](void* recorder) noexcept -> void* {
    static_cast<Recorder*>(recorder)->drain_until_stopped();
    return nullptr;
  };
  constexpr auto kWrite = [](void* recorder) noexcept -> void* {
    static_cast<Recorder*>(recorder)->write_until_stopped();
    return nullptr;
  };
  if (drainer_.start(kDrain, this) && writer_.start(kWrite, this)) return true;
  if (recordings_.size() < 2) stop_workers();
  return false;
}

void Recorder::stop_workers() noexcept {
  drainer_.stop();
  writer_.stop();
}

// ---- recordings -------------------------------------------------------------------------------

std::shared_ptr<Recording> Recorder::start(const plimsoll_recording_options& options,
                                           const char** error) noexcept try {
  if (options.sink > PLIMSOLL_SINK_NULL) {
    *error = "The sink of the recording is not a value of plimsoll_sink.";
    return nullptr;
  }
  if (options.sink == PLIMSOLL_SINK_FILE && (options.path == nullptr || options.path[0] == '\0')) {
    *error = "A recording into a file needs the file's path.";
    return nullptr;
  }
  if (options.sink == PLIMSOLL_SINK_STREAM && options.write == nullptr) {
    *error = "A recording into a stream needs a function that writes the bytes.";
    return nullptr;
  }
  begin_in_child();
  const std::lock_guard control(control_);
  auto recording = std::make_shared<Recording>(options);
  const int open_error = recording->open_file();
  if (open_error != 0) {
    *error = sentence("Cannot open", options.path, open_error);
    return nullptr;
  }
  if (begin(recording, error)) return recording;
  recording->remove_file();
  return nullptr;
} catch (...) {
  *error = kNoMemory;
  return nullptr;
}

const char* Recorder::obstacle(const Recording& recording) const noexcept {
  if (is_broken_ && !recordings_.empty())
    return "Memory ran out while recording: stop the running recordings before starting a new one.";
  for (const auto& other : recordings_) {
    if (other->writes_same_file(recording)) return "Another recording writes to this file.";
  }
  return nullptr;
}

bool Recorder::begin(const std::shared_ptr<Recording>& recording, const char** error) noexcept {
  {
    const std::lock_guard lock(state_);
    *error = obstacle(*recording);
    if (*error != nullptr) return false;
    try {
      children_.begin();
      if (recordings_.empty()) discard_events();
      drain();
      if (is_broken_) throw std::bad_alloc();
      attach(recording);
    } catch (...) {
      detach(*recording);
      *error = kNoMemory;
      return false;
    }
    recording->seal(Recording::Due::kAll, now_ns());
    hot.set_mode(Mode::kOn);
  }
  // Write immediately, so that a full disk is reported at the start.
  recording->write_out(state_, Recording::Due::kAll);
  if (!recording->has_failed()) {
    recording->report_failures();
    if (start_workers()) return true;
  }
  plimsoll_recording_state state{};
  end(*recording, state);
  *error = state.error != 0 ? sentence("Cannot write to", recording->path(), state.error)
                            : "The recording's thread could not be started.";
  return false;
}

void Recorder::attach(const std::shared_ptr<Recording>& recording) {
  recordings_.push_back(recording);
  receivers_.reserve(recordings_.size());
  definitions.copy_roles(ledger_.roles());
  definitions.device({PLIMSOLL_DEVICE_CPU, 0});
  const std::int64_t time_ns = now_ns();
  recording->attach(definitions, ledger_, time_ns);
  if (use_span_.load(std::memory_order_relaxed) != 0)
    recording->on_mark({time_ns, 0, PLIMSOLL_MARK_USES, 1});
  receivers_.push_back(recording.get());
  reading_steps.begin();
  RangeListeners::get().set_marking_recordings(count_marking());
}

std::uint64_t Recorder::count_marking() const noexcept {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      recordings_, [](const auto& recording) { return recording->marks_layer_calls(); }));
}

void Recorder::detach(const Recording& recording) noexcept {
  std::erase_if(recordings_, [&](const auto& other) { return other.get() == &recording; });
  std::erase(receivers_, &recording);
  RangeListeners::get().set_marking_recordings(count_marking());
  if (!recordings_.empty()) return;
  hot.set_mode(Mode::kOff);
  hot.uses.store(nullptr, std::memory_order_relaxed);
  use_span_.store(0, std::memory_order_relaxed);
}

// The table begins empty with each first recording: memory freed meanwhile must not be in it.
bool Recorder::observe_uses(bool is_on) noexcept {
  const std::lock_guard lock(state_);
  if (hot.mode.load(std::memory_order_relaxed) != Mode::kOn) return false;
  if (hot.uses.load(std::memory_order_relaxed) == nullptr) {
    if (!is_on || !uses_.clear()) return false;
    drain();
    first_used_serial_ = ledger_.next_serial();
    hot.uses.store(&uses_, std::memory_order_release);
  }
  const bool was_on = use_span_.load(std::memory_order_relaxed) != 0;
  if (is_on != was_on) use_span_.store(is_on ? ++use_spans_ : 0, std::memory_order_relaxed);
  return true;
}

plimsoll_use_point Recorder::use_point() const noexcept {
  return {.clock = uses_.clock(), .span = use_span_.load(std::memory_order_relaxed)};
}

// Memory from before the table, memory of CUDA graphs and what a forked child may use are unknown.
std::size_t Recorder::unused(Recording& recording, const plimsoll_use_point& since,
                             std::span<plimsoll_live> rows) noexcept {
  const std::lock_guard lock(state_);
  const bool is_known = since.span != 0 && since.span == use_span_.load(std::memory_order_relaxed);
  if (!is_known || !is_running(recording)) return SIZE_MAX;
  drain();
  const std::uint64_t first = std::max(first_used_serial_, ledger_.fork_serial());
  std::size_t count = 0;
  definitions.visit_tensors([&](std::span<const format::Tensor> tensors) {
    ledger_.rows().for_each([&](const LiveRow& row) {
      if (row.is_pending || row.is_adopted || row.serial < first) return;
      if (row.site != 0 && ledger_.sites()[row.site].pool != 0) return;
      if (!uses_.is_unused_since(row.address, since.clock)) return;
      if (count < rows.size()) rows[count] = live_row(as_ended(row), tensors);
      ++count;
    });
  });
  return count;
}

void Recorder::report_uses(Recording& recording) noexcept {
  const Uses* const uses = hot.uses.load(std::memory_order_relaxed);
  if (uses == nullptr) return;
  ledger_.rows().for_each([&](const LiveRow& row) {
    const format::EndUse use = uses->use_of(row.address);
    if (use.age_plus_one == 0 || row.is_pending) return;
    recording.on_last_use({row.serial, use.age_plus_one, use.gap});
  });
}

void Recorder::want_holders(plimsoll_holders_wanted wanted) noexcept {
  plimsoll_holders_wanted before = wanted_holders_.load(std::memory_order_relaxed);
  while (before < wanted && !wanted_holders_.compare_exchange_weak(before, wanted)) {
  }
}

void Recorder::holders(const plimsoll_holders& found) noexcept {
  const std::lock_guard lock(state_);
  if (hot.mode.load(std::memory_order_relaxed) != Mode::kOn) return;
  drain();
  const std::int64_t time_ns = now_ns();
  for (EventReceiver* const receiver : receivers_) {
    receiver->on_holder_walk({time_ns, found.end, found.objects, found.nodes, found.duration_ns});
    for (const plimsoll_holder_link& link : std::span(found.links, found.link_count)) {
      receiver->on_holder_link({link.parent, link.kind, link.name, link.type, link.file, link.line,
                                link.length, link.limit});
    }
    for (const plimsoll_held& held : std::span(found.held, found.held_count)) {
      const LiveRow* const row = ledger_.rows().find({held.address, held.device});
      if (row != nullptr && !row->is_pending) receiver->on_held({row->serial, held.link});
    }
    for (const plimsoll_holder_cut& cut : std::span(found.cuts, found.cut_count)) {
      receiver->on_holder_cut({cut.link, cut.other, cut.freed_count, cut.freed_bytes,
                               cut.left_count, cut.left_bytes, cut.is_native});
    }
  }
  holder_walks_.fetch_add(1, std::memory_order_release);
}

// Attached, and not waiting for the first event of a child process.
bool Recorder::is_running(const Recording& recording) const noexcept {
  return hot.mode.load(std::memory_order_relaxed) != Mode::kChild &&
         std::any_of(recordings_.begin(), recordings_.end(),
                     [&](const auto& other) { return other.get() == &recording; });
}

void Recorder::fill_state(const Recording& recording, plimsoll_recording_state& state) noexcept {
  recording.fill_state(ledger_, state);
  state.refused = definitions.refused() + ledger_.sites().refused();
  state.unrecorded_children = static_cast<std::uint32_t>(children_reported_);
}

void Recorder::define_waiting_stacks() noexcept {
  // Pairs with the store in native_stacks/native_stacks.cc.
  if (const auto define = define_stacks.load(std::memory_order_acquire)) define();
}

void Recorder::flush(Recording& recording) noexcept {
  define_waiting_stacks();
  {
    const std::lock_guard lock(state_);
    if (!is_running(recording)) return;
    drain();
    recording.seal(Recording::Due::kAll, now_ns());
  }
  recording.write_out(state_, Recording::Due::kAll);
}

void Recorder::read_process_now(Recording& recording) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return;
  drain();
  recording.report_process(now_ns());
  recording.end_process_readings();
}

void Recorder::flush_all() noexcept try {
  Recordings all;
  {
    const std::lock_guard lock(state_);
    all = recordings_;
  }
  for (const auto& each : all) flush(*each);
} catch (const std::bad_alloc&) {
  return;  // the next flush will write the rest
}

int Recorder::add_attachment(Recording& recording, std::string_view format,
                             std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kMostBytes = 64u << 20;
  if (bytes.size() > kMostBytes) return EFBIG;
  {
    const std::lock_guard lock(state_);
    if (!is_running(recording)) return ECANCELED;
    drain();
    recording.add_attachment(format, bytes);
  }
  recording.write_out(state_, Recording::Due::kAll);
  return recording.error();
}

void Recorder::settle() noexcept {
  const std::lock_guard lock(state_);
  if (hot.mode.load(std::memory_order_relaxed) == Mode::kOn) drain();
}

void Recorder::get_state(Recording& recording, plimsoll_recording_state& state) noexcept {
  const std::lock_guard lock(state_);
  if (is_running(recording)) drain();
  fill_state(recording, state);
}

void* Recorder::copy(Recording& recording, std::size_t& size_bytes) noexcept {
  define_waiting_stacks();
  const std::lock_guard lock(state_);
  if (is_running(recording)) drain();
  return recording.copy(size_bytes, now_ns());
}

std::uint64_t Recorder::peak_bytes(Recording& recording, int reset) noexcept {
  const std::lock_guard lock(state_);
  if (is_running(recording)) drain();
  const std::uint64_t peak = recording.peak_bytes();
  if (reset != 0) recording.reset_peak(ledger_.live_bytes());
  return peak;
}

// ---- live memory, while it runs ----------------------------------------------------------------

plimsoll_live Recorder::live_row(const Ended& of, std::span<const format::Tensor> tensors) const {
  const format::Site site = of.site != 0 ? ledger_.sites()[of.site] : format::Site{};
  const format::Tensor tensor =
      of.tensor != 0 && of.tensor <= tensors.size() ? tensors[of.tensor - 1] : format::Tensor{};
  return {.serial = of.serial,
          .size_bytes = of.size_bytes,
          .requested_bytes = of.requested_bytes,
          .layer = site.layer,
          .outer_op = site.outer_op,
          .name = tensor.name,
          .dtype = tensor.dtype,
          .shape = tensor.shape,
          .device = of.device,
          .phase = site.phase,
          .role = tensor.role,
          .is_adopted = of.is_adopted,
          .is_temporary = of.use == PLIMSOLL_USE_TEMPORARY};
}

std::size_t Recorder::live(Recording& recording, std::span<plimsoll_live> rows) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return 0;
  drain();
  definitions.visit_tensors([&](std::span<const format::Tensor> tensors) {
    std::size_t count = 0;
    ledger_.rows().for_each([&](const LiveRow& row) {
      if (row.is_pending || count == rows.size()) return;
      rows[count++] = live_row(as_ended(row), tensors);
    });
  });
  return ledger_.live_count();
}

std::uint64_t Recorder::begin_span(Recording& recording) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return 0;
  drain();
  return recording.begin_span(ledger_);
}

std::size_t Recorder::usage(Recording& recording, std::uint64_t span,
                            std::span<plimsoll_usage> rows) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return 0;
  drain();
  const std::span<const DeviceTotals> devices = ledger_.devices();
  for (std::size_t i = 0; i < std::min(devices.size(), rows.size()); ++i) {
    const auto id = static_cast<std::uint8_t>(i);
    const format::Device device = definitions.device_of(id);
    const DeviceTotals& now = devices[i];
    const DevicePeaks peaks = recording.spans().peaks(span, id);
    rows[i] = {.live_bytes = now.live_bytes,
               .live_count = now.live_count,
               .peak_bytes = std::max(peaks.live_bytes, now.live_bytes),
               .requested_bytes = now.requested_bytes,
               .active_bytes = now.active_bytes,
               .reserved_bytes = now.reserved_bytes,
               .peak_reserved_bytes = std::max(peaks.reserved_bytes, now.reserved_bytes),
               .ordinal = device.ordinal,
               .device_type = device.type,
               .device = id,
               .has_segments = now.has_segments,
               .reserved = 0};
  }
  return devices.size();
}

bool Recorder::peak(Recording& recording, std::uint64_t span, std::uint8_t device,
                    plimsoll_peak& peak) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording) || span == 0) return false;
  drain();
  DevicePeaks peaks = recording.spans().peaks(span, device);
  peak = {.bytes = peaks.live_bytes,
          .uses = {},
          .largest_count = 0,
          .largest = {},
          .phase = peaks.phase};
  std::copy(peaks.uses.begin(), peaks.uses.end(), peak.uses);
  // What was live then is still live, or has ended since.
  ledger_.rows().for_each([&](const LiveRow& row) {
    if (row.device != device || row.is_pending || row.serial >= peaks.serial) return;
    peaks.ended.add(as_ended(row));
  });
  definitions.visit_tensors([&](std::span<const format::Tensor> tensors) {
    for (const Ended& each : peaks.ended)
      peak.largest[peak.largest_count++] = live_row(each, tensors);
  });
  return true;
}

std::size_t Recorder::pins(Recording& recording, std::uint8_t device, plimsoll_stranded& sums,
                           std::span<plimsoll_pin> rows) noexcept try {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return 0;
  drain();
  const Pins found = find_pins(ledger_, device);
  sums = found.sums;
  std::copy_n(found.rows.begin(), std::min(rows.size(), found.rows.size()), rows.begin());
  return found.rows.size();
} catch (...) {
  sums = {};
  return 0;
}

bool Recorder::since_step(Recording& recording, std::uint8_t device, std::uint64_t& step,
                          RoleBytes& then, RoleBytes& now) noexcept {
  const std::lock_guard lock(state_);
  if (!is_running(recording)) return false;
  drain();
  const StepEnd* const last = ledger_.last_step();
  if (last == nullptr) return false;
  const auto devices = ledger_.devices();
  step = last->step;
  then = roles_of(device < last->uses.size() ? last->uses[device] : UseBytes{});
  now = roles_of(device < devices.size() ? devices[device].uses : UseBytes{});
  return true;
}

void Recorder::end_span(Recording& recording, std::uint64_t span) noexcept {
  const std::lock_guard lock(state_);
  if (is_running(recording)) drain();
  recording.spans().end(span);
}

void Recorder::stop(Recording& recording, plimsoll_recording_state& state) noexcept {
  define_waiting_stacks();
  const std::lock_guard control(control_);
  end(recording, state);
}

void Recorder::end(Recording& recording, plimsoll_recording_state& state) noexcept {
  const std::vector<SourceText> sources = recording.read_sources(definitions);
  bool is_last = false;
  bool is_begun = false;
  {
    const std::lock_guard lock(state_);
    is_begun = is_running(recording);
    if (is_begun) {
      drain();
      recording.add_source_lines(sources);
      report_uses(recording);
      recording.finish(now_ns());
    }
    fill_state(recording, state);
    detach(recording);
    is_last = recordings_.empty();
  }
  if (is_begun) recording.write_rest(state_);
  if (is_last) stop_workers();
  const std::lock_guard lock(state_);
  state.written_bytes = recording.written_bytes();
  state.evicted = recording.evicted();
  state.error = recording.error();
  if (!is_last) return;
  wanted_holders_.store(PLIMSOLL_HOLDERS_NOT_WANTED, std::memory_order_relaxed);
  ledger_.forget_live();
  definitions.forget_facts_of_recordings();
}

// ---- the end of the process -------------------------------------------------------------------

void Recorder::install_handlers() noexcept {
  pthread_atfork([] { get().before_fork(); }, [] { get().after_fork_in_parent(); },
                 [] { get().after_fork_in_child(); });
  std::atexit([] { get().at_exit(); });
}

// Ends the recordings that are still running; their owners may still query their state. A stream's
// callback may use destroyed objects, so it is not called any more, and a drain thread that is
// blocked in one is abandoned.
void Recorder::at_exit() noexcept {
  define_waiting_stacks();
  constexpr timespec kPoint{0, 10'000'000};
  for (int tries = 0; !control_.try_lock(); ++tries) {
    if (tries == 100) return;  // another thread is stuck starting or stopping
    nanosleep(&kPoint, nullptr);
  }
  const std::lock_guard control(control_, std::adopt_lock);
  Recordings recordings;
  {
    const std::lock_guard lock(state_);
    if (hot.mode.load(std::memory_order_relaxed) == Mode::kChild) return;
    drain();
    hot.set_mode(Mode::kOff);
    for (const auto& recording : recordings_) {
      report_uses(*recording);
      recording->finish(now_ns());
    }
    hot.uses.store(nullptr, std::memory_order_relaxed);
    recordings.swap(recordings_);
    receivers_.clear();
  }
  bool has_stream = false;
  for (const auto& recording : recordings) {
    has_stream = has_stream || recording->is_stream();
    if (!recording->is_stream()) recording->write_rest(state_);
  }
  drainer_.stop();
  if (has_stream) {
    writer_.stop_unseen();
  } else {
    writer_.stop();
  }
}

// ---- fork -------------------------------------------------------------------------------------

void Recorder::before_fork() noexcept {
  define_waiting_stacks();  // the child would not know their addresses
  state_.lock();
  threads.lock();
  definitions.lock();
}

void Recorder::after_fork_in_parent() noexcept {
  definitions.unlock();
  threads.unlock();
  state_.unlock();
}

// Creates neither a thread nor a file: that waits for the first event, if any.
void Recorder::after_fork_in_child() noexcept {
  ::new (static_cast<void*>(&control_)) std::mutex;
  drainer_.forget();
  writer_.forget();
  receivers_.clear();
  for (const auto& recording : recordings_) recording->abandon();
  const bool was_on = hot.mode.load(std::memory_order_relaxed) != Mode::kOff;
  std::erase_if(recordings_,
                [&](const auto& recording) { return !was_on || !recording->follows_forks(); });
  using Child = UnrecordedChildren::Child;
  children_.begin_in_child(!recordings_.empty() ? Child::kRecorded
                           : was_on             ? Child::kUnrecorded
                                                : Child::kOfNoRecording);
  children_before_ = children_reported_ = 0;
  RangeListeners::get().begin_in_child(count_marking());
  hot.set_mode(recordings_.empty() ? Mode::kOff : Mode::kChild);
  threads.forget_other_threads();
  definitions.unlock();
  threads.unlock();
  state_.unlock();
}

bool Recorder::begin_in_child() noexcept {
  thread_local bool is_beginning [[gnu::tls_model("initial-exec")]] =
      false;  // allocations of the child are not recorded
  if (is_beginning || hot.mode.load(std::memory_order_relaxed) == Mode::kOff) return false;
  is_beginning = true;
  {
    const std::lock_guard control(control_);
    if (hot.mode.load(std::memory_order_relaxed) == Mode::kChild) begin_all_in_child();
  }
  is_beginning = false;
  return hot.mode.load(std::memory_order_relaxed) == Mode::kOn;
}

void Recorder::begin_all_in_child() noexcept {
  attach_all_in_child();
  // The control lock keeps the list unchanged. Even a child that ends soon leaves a file.
  for (const auto& recording : recordings_) recording->write_out(state_, Recording::Due::kAll);
  const bool has_workers = start_workers();
  const std::lock_guard lock(state_);
  if (has_workers && !is_broken_) {
    hot.set_mode(Mode::kOn);
    return;
  }
  for (const auto& recording : recordings_) recording->fail(is_broken_ ? ENOMEM : EAGAIN);
  recordings_.clear();
  receivers_.clear();
  hot.set_mode(Mode::kOff);
}

void Recorder::attach_all_in_child() noexcept {
  const std::lock_guard lock(state_);
  drain();  // events of the parent's threads in the rings are part of the child's state
  Recordings recordings;
  recordings.swap(recordings_);
  try {
    for (const auto& recording : recordings) {
      children_.begin();
      recording->begin_in_child();
      attach(recording);
      recording->seal(Recording::Due::kAll, now_ns());
    }
    // Opens the files last, so that a child that is killed before this leaves none.
    for (const auto& recording : recordings) recording->open_in_child();
  } catch (...) {
    break_off();
  }
}

}  // namespace plimsoll::record
