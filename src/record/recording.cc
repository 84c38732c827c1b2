#include "record/recording.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "base/launcher.h"
#include "format/block.h"
#include "plimsoll/version.h"
#include "record/hot/ticks.h"
#include "record/process_reading.h"

namespace plimsoll::record {
namespace {

constexpr std::int64_t kOldBlockNs = 80'000'000;  // plus the drain's period
constexpr std::uint64_t kKeptParts = 16;          // blocks that max_events is divided into
constexpr std::uint64_t kFewestKeptEvents = 64;   // in a block

constexpr std::size_t kMostWaitingBytes = 256u << 20;  // for a sink that does not respond

bool is_file_that_keeps(const plimsoll_recording_options& options) {
  return options.sink == PLIMSOLL_SINK_FILE && options.max_events > 0;
}

// Whether reports count the event: step and layer marks, and tensors, do not count.
template <typename Event>
bool is_memory_event(const Event&) {
  return std::is_same_v<Event, format::Segment> || std::is_same_v<Event, format::OutOfMemory>;
}
bool is_memory_event(const format::Mark& mark) { return mark.kind == PLIMSOLL_MARK_OUT_OF_MEMORY; }

DevicePeaks peaks_of(const LiveTotals& live) {
  return {.live_bytes = live.device_bytes,
          .uses = live.uses,
          .serial = live.next_serial,
          .reserved_bytes = live.device_reserved_bytes,
          .phase = live.phase};
}

}  // namespace

Recording::Recording(const plimsoll_recording_options& options)
    : sink_(options.sink),
      in_children_(options.in_children != 0),
      marks_layer_calls_(options.marks_layer_calls != 0),
      omits_source_text_(options.omits_source_text != 0),
      earlier_(options.replaces != 0 ? Earlier::kReplace : Earlier::kKeep),
      path_(options.path != nullptr ? options.path : ""),
      max_events_(options.max_events),
      stream_(options.write),
      stream_user_(options.user) {
  if (options.meta != nullptr) {
    for (const char* const* at = options.meta; at[0] != nullptr && at[1] != nullptr; at += 2)
      meta_.emplace_back(at[0], at[1]);
  }
  if (sink_ == PLIMSOLL_SINK_MEMORY || is_file_that_keeps(options)) kept_.emplace(max_events_);
  restart();
}

void Recording::restart() {
  encoder_.emplace(static_cast<format::BlockOutput&>(*this));
  if (kept_) kept_.emplace(max_events_);
  kept_at_ = 0;
  is_finished_ = false;
  reads_process_ = true;
  sent_ = {};
  longest_wait_ns_ = 0;
  shortened_bytes_ = 0;
  state_at_ns_ = 0;
  cursor_ = {};
  sites_defined_ = 0;
  events_ = 0;
  memory_events_ = 0;
  dropped_ = 0;
  error_.store(0, std::memory_order_relaxed);
  written_bytes_.store(0, std::memory_order_relaxed);
  ready_.clear();
  ready_ends_.clear();
}

// ---- the file ---------------------------------------------------------------------------------

int Recording::open_file() {
  if (sink_ != PLIMSOLL_SINK_FILE) return 0;
  const int error = file_.open(path_, earlier_);
  if (error == 0) {
    path_ = file_.path();
    has_state_ = file_.is_regular();
  }
  return error;
}

// ---- encoding ---------------------------------------------------------------------------------

void Recording::describe_process(std::int64_t time_ns) {
  format::Process process;
  process.pid = static_cast<std::uint64_t>(getpid());
  process.rank = base::launched_rank().value_or(-1);
  process.started_ns = time_ns;
  encoder_->process(process);
  encoder_->meta("plimsoll", PLIMSOLL_VERSION);
  for (const auto& [key, name] :
       {std::pair{"world_size", "WORLD_SIZE"}, {"local_rank", "LOCAL_RANK"}}) {
    const auto number = base::number_in_environment(name);
    if (number) encoder_->meta(key, std::to_string(*number));
  }
  if (marks_layer_calls_) encoder_->meta("layer_calls", "marked");
  for (const auto& [key, value] : meta_) encoder_->meta(key, value);
}

void Recording::attach(Definitions& definitions, const Ledger& ledger, std::int64_t time_ns) {
  sites_ = &ledger.sites();
  started_ns_ = sealed_ns_ = time_ns;
  sealed_at_ns_ = waiting_since_ns_ = clock_ns();
  if (!kept_ || has_state_) {
    ready_.resize(format::kPreludeBytes);
    format::Encoder::prelude(ready_.data());
    if (has_state_) {
      const auto state = format::encode_file_state(file_state({.until_ns = time_ns}));
      ready_.insert(ready_.end(), state.begin(), state.end());
    }
    ready_ends_.push_back(ready_.size());
  }
  describe_process(time_ns);
  write_definitions(definitions);
  define_sites();
  report_segments(ledger, time_ns);
  report_live(ledger, time_ns);
  report_process(time_ns);
  peak_bytes_ = ledger.live_bytes();
  replaced_before_ = ledger.replaced();
  unmatched_before_ = ledger.unmatched();
}

void Recording::report_process(std::int64_t time_ns) noexcept {
  if (!reads_process_) return;
  read_process([&](plimsoll_figure figure, std::uint64_t bytes) {
    on_device_figure({time_ns, Definitions::kCpu, static_cast<std::uint8_t>(figure), bytes});
  });
}

void Recording::report_segments(const Ledger& ledger, std::int64_t time_ns) {
  ledger.segments().for_each([&](format::Segment segment) {
    segment.time_ns = time_ns;
    on_reserved({.device = segment.device});
    on_segment(segment);
  });
}

void Recording::report_live(const Ledger& ledger, std::int64_t time_ns) {
  std::vector<const LiveRow*> rows;
  rows.reserve(ledger.rows().size());
  ledger.rows().for_each([&](const LiveRow& row) { rows.push_back(&row); });
  std::sort(rows.begin(), rows.end(),
            [](const LiveRow* a, const LiveRow* b) { return a->serial < b->serial; });
  for (const LiveRow* row : rows) {
    format::Alloc reported;
    reported.time_ns = time_ns;
    reported.thread = row->thread;
    reported.site = row->site;
    reported.serial = row->serial;
    reported.address = row->address;
    reported.size_bytes = row->requested_bytes;
    reported.padding_bytes = row->size_bytes - row->requested_bytes;
    reported.is_adopted = true;
    on_alloc(reported, {.bytes = ledger.live_bytes(), .device = row->device});
    if (row->tensor != 0) on_tag({row->serial, row->tensor});
    // An earlier recording or a monitor has seen the allocation, so its phase is known.
    if (!row->is_adopted && row->site != 0) {
      on_set_phase({row->serial, (*sites_)[row->site].phase});
    }
    if (row->is_pending) on_free_requested({time_ns, row->thread, row->serial, false}, {});
  }
}

void Recording::define_sites() noexcept {
  for (; sites_defined_ < sites_->size(); ++sites_defined_) {
    const auto id = static_cast<std::uint32_t>(sites_defined_ + 1);
    encoder_->define_site(id, (*sites_)[id]);
  }
}

void Recording::after_memory_event() noexcept {
  ++memory_events_;
  after_event();
}

void Recording::after_event() noexcept {
  ++events_;
  if (!kept_ || max_events_ == 0) return;
  if (events_ - kept_at_ < std::max(kFewestKeptEvents, max_events_ / kKeptParts)) return;
  kept_at_ = events_;
  encoder_->flush();
}

std::uint64_t Recording::begin_span(const Ledger& ledger) noexcept {
  const std::uint64_t id = spans_.begin();
  std::uint8_t device = 0;
  for (const DeviceTotals& totals : ledger.devices()) {
    spans_.see(device++, {.live_bytes = totals.live_bytes,
                          .uses = totals.uses,
                          .serial = ledger.next_serial(),
                          .reserved_bytes = totals.reserved_bytes});
  }
  return id;
}

void Recording::on_alloc(const format::Alloc& event, const LiveTotals& live) noexcept {
  peak_bytes_ = std::max(peak_bytes_, live.bytes);
  spans_.see(live.device, peaks_of(live));
  if (is_written()) {
    need_site(event.site);
    encoder_->alloc(event);
  }
  after_memory_event();
}

void Recording::on_free_requested(const format::FreeRequested& event,
                                  const format::EndUse& last) noexcept {
  if (is_written()) encoder_->free_requested(event, last);
  after_memory_event();
}

void Recording::on_free(const format::Free& event, const format::EndUse& last) noexcept {
  if (is_written()) encoder_->free(event, last);
  if (event.serial == format::kNoSerial) return after_event();
  after_memory_event();
}

void Recording::on_reserved(const LiveTotals& live) noexcept {
  spans_.see(live.device, peaks_of(live));
}

template <typename Event>
void Recording::take(const Event& event,
                     void (format::Encoder::*encode)(const Event&) noexcept) noexcept {
  if constexpr (std::is_same_v<Event, format::Mark>) {
    const bool is_call =
        event.kind == PLIMSOLL_MARK_LAYER_BEGIN || event.kind == PLIMSOLL_MARK_LAYER_END;
    if (is_call && !marks_layer_calls_) return;
  }
  if constexpr (std::is_same_v<Event, format::Dropped>) dropped_ += event.count;
  if (is_written()) {
    if constexpr (requires { event.site; }) need_site(event.site);
    ((*encoder_).*encode)(event);
  }
  if (is_memory_event(event)) return after_memory_event();
  after_event();
}

#define PLIMSOLL_EVENT(Struct, method, number, meaning)               \
  void Recording::on_##method(const format::Struct& event) noexcept { \
    take(event, &format::Encoder::method);                            \
  }
#include "format/records.def"

// Takes a finished block.
void Recording::write(const format::FinishedBlock& block) noexcept try {
  if (has_failed()) return;
  if (kept_) {
    kept_->add(block);
    if (sink_ == PLIMSOLL_SINK_MEMORY)
      written_bytes_.fetch_add(block.bytes.size(), std::memory_order_relaxed);
    if (!has_state_) return;
  }
  if (ready_.size() > kMostWaitingBytes) return fail(ENOBUFS);
  ready_.insert(ready_.end(), block.bytes.begin(), block.bytes.end());
  ready_ends_.push_back(ready_.size());
} catch (...) {
  fail(ENOMEM);
}

void Recording::seal(Due due, std::int64_t time_ns) noexcept {
  const std::uint64_t now_ns = clock_ns();
  const bool is_idle = encoder_->pending_bytes() == 0 && ready_.empty();
  if (is_idle) waiting_since_ns_ = now_ns;
  const bool is_young = time_ns - sealed_ns_ < kOldBlockNs;
  if (due == Due::kOld && !is_idle && (is_young || (kept_ && !has_state_))) return;
  sealed_ns_ = time_ns;
  sealed_at_ns_ = now_ns;
  if (has_failed() || encoder_->pending_bytes() == 0) return;
  kept_at_ = events_;
  encoder_->flush();
}

void Recording::add_attachment(std::string_view format, std::span<const std::byte> bytes) noexcept {
  if (!is_written()) return;
  encoder_->attachment(format, bytes);
}

std::vector<SourceText> Recording::read_sources(Definitions& definitions) const noexcept try {
  return is_written() ? read_source_lines(definitions, started_ns_) : std::vector<SourceText>();
} catch (...) {
  return {};
}

void Recording::add_source_lines(std::span<const SourceText> lines) noexcept {
  if (!is_written()) return;
  for (const SourceText& line : lines) {
    const std::string_view text = omits_source_text_ ? std::string_view() : line.text;
    encoder_->source_line({line.file, line.line, line.hash, text});
  }
}

void Recording::finish(std::int64_t time_ns) noexcept {
  report_process(time_ns);
  is_finished_ = true;
  sealed_ns_ = time_ns;
  if (!has_failed()) encoder_->finish(time_ns);
}

std::uint64_t Recording::evicted() const noexcept {
  // A file that could not be shortened has all events.
  return sink_ == PLIMSOLL_SINK_FILE ? sent_.evicted_events : extent_of_blocks().evicted_events;
}

void Recording::fill_state(const Ledger& ledger, plimsoll_recording_state& state) const noexcept {
  state.live_bytes = ledger.live_bytes();
  state.live_count = ledger.live_count();
  state.replaced = ledger.replaced() - replaced_before_;
  state.unmatched = ledger.unmatched() - unmatched_before_;
  state.events = memory_events_;
  state.dropped = dropped_;
  state.evicted = evicted();
  state.written_bytes = written_bytes_.load(std::memory_order_relaxed);
  state.error = error_.load(std::memory_order_relaxed);
}

void* Recording::copy(std::size_t& size_bytes, std::int64_t time_ns) noexcept try {
  if (sink_ != PLIMSOLL_SINK_MEMORY || has_failed()) return nullptr;
  seal(Due::kAll, time_ns);
  return kept_->assemble(file_state(extent_of_blocks()), size_bytes);
} catch (...) {
  return nullptr;
}

// ---- fork -------------------------------------------------------------------------------------

void Recording::abandon() noexcept {
  ::new (static_cast<void*>(&writing_)) std::mutex;  // its owner may be a thread that the child
                                                     // does not have
  file_.abandon();
}

void Recording::begin_in_child() {
  restart();
  has_state_ = true;
  reports_failure_ = true;
  reports_growth_ = true;
}

void Recording::open_in_child() {
  const int error = file_.open_unnamed(path_ + "." + std::to_string(getpid()));
  if (error != 0) fail(error);
}

}  // namespace plimsoll::record
