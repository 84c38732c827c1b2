#include "record/recording.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "format/block.h"
#include "plimsoll/version.h"
#include "record/ticks.h"

namespace plimsoll::record {
namespace {

constexpr std::int64_t kOldBlockNs = 80'000'000;      // and then the drain's period
constexpr std::uint64_t kRewriteNs = 10'000'000'000;  // of a file that keeps the newest
constexpr std::uint64_t kKeptParts = 16;              // blocks that max_events is made of
constexpr std::uint64_t kFewestKeptEvents = 64;       // in a block

constexpr std::size_t kMostWaitingBytes = 256u << 20;  // for a sink that hangs
constexpr std::uint64_t kLastTime = ~std::uint64_t{0};
constexpr std::uint64_t kNotWritten = kLastTime - 1;

// Of a distributed run, as its launchers tell it: a number of the environment, or -1.
std::int64_t number_of_environment(const char* name) noexcept {
  const char* text = std::getenv(name);
  if (text == nullptr) return -1;
  std::int64_t rank = -1;
  const char* const end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, rank);
  return result.ec == std::errc{} && result.ptr == end && rank >= 0 ? rank : -1;
}

bool is_file_that_keeps(const plimsoll_recording_options& options) {
  return options.sink == PLIMSOLL_SINK_FILE && options.max_events > 0;
}

DevicePeaks peaks_of(const LiveTotals& live) {
  return {.live_bytes = live.device_bytes,
          .roles = live.roles,
          .serial = live.next_serial,
          .reserved_bytes = live.device_reserved_bytes,
          .phase = live.phase};
}

}  // namespace

Recording::Recording(const plimsoll_recording_options& options)
    : sink_(options.sink),
      in_children_(options.in_children != 0),
      marks_layer_calls_(options.marks_layer_calls != 0),
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
  cursor_ = {};
  sites_defined_ = 0;
  events_ = 0;
  dropped_ = 0;
  rewritten_events_ = 0;
  error_.store(0, std::memory_order_relaxed);
  written_bytes_.store(0, std::memory_order_relaxed);
  ready_.clear();
  ready_ends_.clear();
  if (kept_) return;  // which writes the prelude itself
  ready_.resize(format::kPreludeBytes);
  format::Encoder::prelude(ready_.data());
  ready_ends_.push_back(ready_.size());
}

// ---- the file ---------------------------------------------------------------------------------

int Recording::open_file() {
  if (sink_ != PLIMSOLL_SINK_FILE) return 0;
  const int error = file_.open(path_, earlier_);
  if (error == 0) path_ = file_.path();
  return error;
}

// ---- encoding ---------------------------------------------------------------------------------

void Recording::describe_process(std::int64_t time_ns) {
  format::Process process;
  process.pid = static_cast<std::uint64_t>(getpid());
  process.rank = number_of_environment("RANK");
  process.started_ns = time_ns;
  encoder_->process(process);
  encoder_->meta("plimsoll", PLIMSOLL_VERSION);
  for (const auto& [key, name] :
       {std::pair{"world_size", "WORLD_SIZE"}, {"local_rank", "LOCAL_RANK"}}) {
    const std::int64_t number = number_of_environment(name);
    if (number >= 0) encoder_->meta(key, std::to_string(number));
  }
  if (marks_layer_calls_) encoder_->meta("layer_calls", "marked");
  for (const auto& [key, value] : meta_) encoder_->meta(key, value);
}

void Recording::attach(Definitions& definitions, const Ledger& ledger, std::int64_t time_ns) {
  sites_ = &ledger.sites();
  sealed_ns_ = time_ns;
  describe_process(time_ns);
  write_definitions(definitions);
  define_sites();
  tell_segments(ledger, time_ns);
  tell_live(ledger, time_ns);
  peak_bytes_ = ledger.live_bytes();
  replaced_before_ = ledger.replaced();
  unmatched_before_ = ledger.unmatched();
}

void Recording::tell_segments(const Ledger& ledger, std::int64_t time_ns) {
  ledger.segments().for_each([&](format::Segment segment) {
    segment.time_ns = time_ns;
    on_segment(segment, {.device = segment.device});
  });
}

void Recording::tell_live(const Ledger& ledger, std::int64_t time_ns) {
  std::vector<const LiveRow*> rows;
  rows.reserve(ledger.rows().size());
  ledger.rows().for_each([&](const LiveRow& row) { rows.push_back(&row); });
  std::sort(rows.begin(), rows.end(),
            [](const LiveRow* a, const LiveRow* b) { return a->serial < b->serial; });
  for (const LiveRow* row : rows) {
    format::Alloc told;
    told.time_ns = time_ns;
    told.thread = row->thread;
    told.site = row->site;
    told.serial = row->serial;
    told.address = row->address;
    told.size_bytes = row->requested_bytes;
    told.slack_bytes = row->size_bytes - row->requested_bytes;
    told.is_adopted = true;
    on_alloc(told, {.bytes = ledger.live_bytes(), .device = row->device});
    if (row->tensor != 0) on_tag({row->serial, row->tensor});
    if (row->is_pending) on_free_requested({time_ns, row->thread, row->serial, false});
  }
}

void Recording::define_sites() noexcept {
  for (; sites_defined_ < sites_->size(); ++sites_defined_) {
    const auto id = static_cast<std::uint32_t>(sites_defined_ + 1);
    encoder_->define_site(id, (*sites_)[id]);
  }
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
                          .roles = totals.roles,
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
  after_event();
}

void Recording::on_segment(const format::Segment& event, const LiveTotals& live) noexcept {
  spans_.see(live.device, peaks_of(live));
  if (is_written()) {
    need_site(event.site);
    encoder_->segment(event);
  }
  after_event();
}

void Recording::on_out_of_memory(const format::OutOfMemory& event) noexcept {
  if (is_written()) {
    need_site(event.site);
    encoder_->out_of_memory(event);
  }
  after_event();
}

void Recording::on_free_requested(const format::FreeRequested& event) noexcept {
  if (is_written()) encoder_->free_requested(event);
  after_event();
}

void Recording::on_free(const format::Free& event) noexcept {
  if (is_written()) encoder_->free(event);
  after_event();
}

void Recording::on_device_figure(const format::DeviceFigure& event) noexcept {
  if (is_written()) encoder_->device_figure(event);
  after_event();
}

void Recording::on_tag(const format::Tag& event) noexcept {
  if (is_written()) encoder_->tag(event);
  after_event();
}

void Recording::on_set_phase(const format::SetPhase& event) noexcept {
  if (is_written()) encoder_->set_phase(event);
  after_event();
}

void Recording::on_mark(const format::Mark& event) noexcept {
  const bool is_call =
      event.kind == PLIMSOLL_MARK_LAYER_BEGIN || event.kind == PLIMSOLL_MARK_LAYER_END;
  if (is_call && !marks_layer_calls_) return;
  if (is_written()) encoder_->mark(event);
  after_event();
}

void Recording::on_dropped(const format::Dropped& event) noexcept {
  dropped_ += event.count;
  if (is_written()) encoder_->dropped(event);
  after_event();
}

// A block is finished.
void Recording::write(const format::FinishedBlock& block) noexcept try {
  if (has_failed()) return;
  if (kept_) {
    kept_->add(block);
    if (sink_ == PLIMSOLL_SINK_MEMORY)
      written_bytes_.fetch_add(block.bytes.size(), std::memory_order_relaxed);
    return;
  }
  if (ready_.size() > kMostWaitingBytes) return fail(ENOBUFS);
  ready_.insert(ready_.end(), block.bytes.begin(), block.bytes.end());
  ready_ends_.push_back(ready_.size());
} catch (...) {
  fail(ENOMEM);
}

void Recording::seal(Due due, std::int64_t time_ns) noexcept {
  if (due == Due::kOld && (kept_ || time_ns - sealed_ns_ < kOldBlockNs)) return;
  sealed_ns_ = time_ns;
  if (!has_failed() && encoder_->pending_bytes() > 0) encoder_->flush();
}

void Recording::add_attachment(std::string_view format, std::span<const std::byte> bytes) noexcept {
  if (!is_written()) return;
  encoder_->attachment(format, bytes);
  rewritten_events_ = kNotWritten;
}

void Recording::finish(std::int64_t time_ns) noexcept {
  if (!has_failed()) encoder_->finish(time_ns);
}

void Recording::fill_state(const Ledger& ledger, plimsoll_recording_state& state) const noexcept {
  state.live_bytes = ledger.live_bytes();
  state.live_count = ledger.live_count();
  state.replaced = ledger.replaced() - replaced_before_;
  state.unmatched = ledger.unmatched() - unmatched_before_;
  state.events = events_;
  state.dropped = dropped_;
  state.evicted = kept_ ? kept_->evicted() : 0;
  state.written_bytes = written_bytes_.load(std::memory_order_relaxed);
  state.error = error_.load(std::memory_order_relaxed);
}

void* Recording::copy(std::size_t& size_bytes, std::int64_t time_ns) noexcept try {
  if (sink_ != PLIMSOLL_SINK_MEMORY || has_failed()) return nullptr;
  seal(Due::kAll, time_ns);
  return kept_->assemble(size_bytes);
} catch (...) {
  return nullptr;
}

// ---- writing ----------------------------------------------------------------------------------

void Recording::fail(int error) noexcept {
  int none = 0;
  error_.compare_exchange_strong(none, error, std::memory_order_relaxed);
}

int Recording::put(const std::vector<std::byte>& bytes,
                   const std::vector<std::size_t>& ends) noexcept {
  if (sink_ == PLIMSOLL_SINK_FILE) return file_.append(bytes);
  if (sink_ != PLIMSOLL_SINK_STREAM) return 0;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (stream_(stream_user_, bytes.data() + begin, end - begin) == 0) return EPIPE;
    begin = end;
  }
  return 0;
}

void Recording::write_out(std::mutex& state_mutex, Due due) noexcept {
  const std::lock_guard writing(writing_);
  if (is_kept_file()) {
    if (due == Due::kAll || clock_ns() - rewritten_at_ns_ >= kRewriteNs)
      write_kept_file(state_mutex);
    return;
  }
  std::vector<std::byte> bytes;
  std::vector<std::size_t> ends;
  {
    const std::lock_guard lock(state_mutex);
    bytes.swap(ready_);
    ends.swap(ready_ends_);
  }
  if (has_failed() || bytes.empty()) return;
  const int error = put(bytes, ends);
  if (error != 0) return fail(error);
  written_bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
}

void Recording::write_kept_file(std::mutex& state_mutex) noexcept try {
  std::unique_ptr<std::byte, decltype(&std::free)> whole(nullptr, &std::free);
  std::size_t size_bytes = 0;
  {
    const std::lock_guard lock(state_mutex);
    if (has_failed() || (rewritten_at_ns_ != 0 && rewritten_events_ == events_)) return;
    // A pipe gets the trace once, at the end.
    if (!file_.is_regular() && rewritten_events_ != kLastTime) return;
    rewritten_events_ = events_;
    encoder_->flush();
    kept_at_ = events_;
    whole.reset(kept_->assemble(size_bytes));
  }
  rewritten_at_ns_ = clock_ns();
  if (whole == nullptr) return fail(ENOMEM);
  const std::span<const std::byte> bytes(whole.get(), size_bytes);
  int error = file_.is_regular() ? file_.begin_replacement() : file_.append(bytes);
  if (error == 0 && file_.is_regular()) error = file_.extend_replacement(bytes);
  if (error == 0 && file_.is_regular()) error = file_.end_replacement();
  if (error != 0) return fail(error);
  written_bytes_.store(size_bytes, std::memory_order_relaxed);
} catch (...) {
  fail(ENOMEM);
}

void Recording::write_rest(std::mutex& state_mutex) noexcept {
  {
    const std::lock_guard lock(state_mutex);
    rewritten_events_ = kLastTime;
  }
  write_out(state_mutex, Due::kAll);
  const std::lock_guard writing(writing_);
  const int error = file_.close();
  if (error != 0) fail(error);
}

// ---- fork -------------------------------------------------------------------------------------

void Recording::let_go() noexcept {
  ::new (static_cast<void*>(&writing_)) std::mutex;  // whoever held it is not in this process
  file_.let_go();
}

void Recording::begin_in_child() {
  const std::string path = path_ + "." + std::to_string(getpid());
  restart();
  const int error = file_.open(path, Earlier::kKeep);
  if (error != 0) fail(error);
}

}  // namespace plimsoll::record
